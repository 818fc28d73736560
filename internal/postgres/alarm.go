package postgres

import (
	"context"
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

const alarmColumns = `id, key, severity, subject, message, opened_at, acknowledged_at, cleared_at`

// AlarmList lists newest first, before one; open only leaves out the cleared.
func AlarmList(ctx context.Context, q Querier, open bool, before *cloud.AlarmID, limit int) ([]cloud.Alarm, error) {
	rows, _ := q.Query(ctx, `
		SELECT `+alarmColumns+` FROM alarm
		WHERE ($1 = false OR cleared_at IS NULL) AND ($2::uuid IS NULL OR id < $2)
		ORDER BY id DESC LIMIT $3`, open, before, limit)
	return all[cloud.Alarm](rows, "list alarms")
}

// AlarmAcknowledge notes that somebody has seen it; the first one stays.
func AlarmAcknowledge(ctx context.Context, q Querier, id cloud.AlarmID, at time.Time) (cloud.Alarm, error) {
	rows, _ := q.Query(ctx, `
		UPDATE alarm SET acknowledged_at = COALESCE(acknowledged_at, $2) WHERE id = $1
		RETURNING `+alarmColumns, id, at)
	return one[cloud.Alarm](rows, "acknowledge alarm")
}
