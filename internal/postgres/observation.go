package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// Observation is what a node last said of an instance. Nodes write it; the
// lifecycle loop draws the conclusions.
type Observation struct {
	InstanceID cloud.InstanceID
	NodeID     cloud.NodeID
	Epoch      int64
	Generation int64
	State      string // a nodewire.Guest… word
	Reason     string
	Message    string
	Progress   *int
	ExitCode   *int
	LastLines  string
	Address    string
	StateFor   time.Duration
	RanFor     time.Duration
	ReceivedAt time.Time       // the control plane's clock
	Activity   json.RawMessage // a nodewire.Activity; nil: not known
	Seq        int64           // grows with each thing said that differs
	ProjectID  cloud.ProjectID
}

// ObservationPut keeps what a node says, as tenon_node: row security leaves only
// instances that are placed on it, and what it says of others is dropped. It
// gives how many had news. A repeated observation is kept as a proof of life and
// is no news.
func ObservationPut(ctx context.Context, q Querier, node cloud.NodeID, list []Observation) (news int, err error) {
	if len(list) == 0 {
		return 0, nil
	}
	type row struct {
		ID         uuid.UUID       `json:"id"`
		Epoch      int64           `json:"epoch"`
		Generation int64           `json:"generation"`
		State      string          `json:"state"`
		Reason     string          `json:"reason"`
		Message    string          `json:"message"`
		Progress   *int            `json:"progress"`
		ExitCode   *int            `json:"exit_code"`
		LastLines  string          `json:"last_lines"`
		Address    string          `json:"address"`
		StateFor   float64         `json:"state_for"`
		RanFor     float64         `json:"ran_for"`
		Activity   json.RawMessage `json:"activity"`
	}
	out := make([]row, 0, len(list))
	for _, o := range list {
		out = append(out, row{o.InstanceID.UUID(), o.Epoch, o.Generation, o.State, o.Reason, o.Message,
			o.Progress, o.ExitCode, o.LastLines, o.Address, o.StateFor.Seconds(), o.RanFor.Seconds(), o.Activity})
	}
	err = q.QueryRow(ctx, `
		WITH said AS (
			SELECT DISTINCT ON (r.id) r.* FROM json_to_recordset($2::json) AS r (
				id uuid, epoch bigint, generation bigint, state text, reason text, message text,
				progress int, exit_code int, last_lines text, address text, state_for float8, ran_for float8, activity jsonb)
			JOIN instance i ON i.id = r.id AND i.node_id = $1
			ORDER BY r.id
		), kept AS (
			INSERT INTO observation AS o (instance_id, node_id, epoch, generation, state, reason, message,
				progress, exit_code, last_lines, address, state_for, ran_for, activity)
			SELECT id, $1, epoch, generation, state, reason, message, progress, exit_code, last_lines, address,
				make_interval(secs => state_for), make_interval(secs => ran_for), NULLIF(activity, 'null'::jsonb)
			FROM said
			ON CONFLICT (instance_id) DO UPDATE SET
				node_id = excluded.node_id, epoch = excluded.epoch, generation = excluded.generation,
				state = excluded.state, reason = excluded.reason, message = excluded.message,
				progress = excluded.progress, exit_code = excluded.exit_code, last_lines = excluded.last_lines,
				address = excluded.address, state_for = excluded.state_for, ran_for = excluded.ran_for, activity = excluded.activity,
				received_at = now(),
				seq = o.seq + CASE WHEN (o.epoch, o.generation, o.state, o.reason, o.message, o.progress, o.exit_code, o.last_lines, o.address)
					IS DISTINCT FROM (excluded.epoch, excluded.generation, excluded.state, excluded.reason, excluded.message,
						excluded.progress, excluded.exit_code, excluded.last_lines, excluded.address) THEN 1 ELSE 0 END
			RETURNING seq > handled_seq AS news
		)
		SELECT count(*) FILTER (WHERE news) FROM kept`, node, asJSON(out)).Scan(&news)
	if err != nil {
		return 0, fmt.Errorf("keep observations: %w", err)
	}
	return news, nil
}

const observationColumns = `
	o.instance_id, o.node_id, o.epoch, o.generation, o.state, o.reason, o.message, o.progress,
	o.exit_code, o.last_lines, o.address, o.state_for, o.ran_for, o.received_at, o.seq, i.project_id`

func observationScan(row pgx.CollectableRow) (o Observation, err error) {
	err = row.Scan(&o.InstanceID, &o.NodeID, &o.Epoch, &o.Generation, &o.State, &o.Reason, &o.Message, &o.Progress,
		&o.ExitCode, &o.LastLines, &o.Address, &o.StateFor, &o.RanFor, &o.ReceivedAt, &o.Seq, &o.ProjectID)
	return o, err
}

// ObservationUnhandled lists news, in the order of instances after one.
func ObservationUnhandled(ctx context.Context, q Querier, after cloud.InstanceID, limit int) ([]Observation, error) {
	rows, err := q.Query(ctx, `
		SELECT `+observationColumns+`
		FROM observation o JOIN instance i ON i.id = o.instance_id
		WHERE o.handled_seq < o.seq AND o.instance_id > $1
		ORDER BY o.instance_id LIMIT $2`, after.UUID(), limit)
	if err != nil {
		return nil, fmt.Errorf("list observations: %w", err)
	}
	out, err := pgx.CollectRows(rows, observationScan)
	if err != nil {
		return nil, fmt.Errorf("list observations: %w", err)
	}
	return out, nil
}

// ObservationHandled marks observations as dealt with, up to the Seq that was
// read; what a node has said since stays news.
func ObservationHandled(ctx context.Context, q Querier, list []Observation) error {
	if len(list) == 0 {
		return nil
	}
	ids, seqs := make([]uuid.UUID, len(list)), make([]int64, len(list))
	for i, o := range list {
		ids[i], seqs[i] = o.InstanceID.UUID(), o.Seq
	}
	_, err := q.Exec(ctx, `
		WITH read AS (SELECT * FROM unnest($1::uuid[], $2::bigint[]) AS r (id, seq)),
		locked AS MATERIALIZED (
			SELECT o.instance_id, read.seq FROM observation o JOIN read ON read.id = o.instance_id
			ORDER BY o.instance_id FOR NO KEY UPDATE OF o
		)
		UPDATE observation o SET handled_seq = GREATEST(o.handled_seq, locked.seq)
		FROM locked WHERE o.instance_id = locked.instance_id`, ids, seqs)
	if err != nil {
		return fmt.Errorf("mark observations: %w", err)
	}
	return nil
}

// ObservationForget drops what nodes said of instances that are not, or no
// longer, placed on them: the next node begins with a clean page, and row
// security would keep it from writing over another's.
func ObservationForget(ctx context.Context, q Querier, ids []cloud.InstanceID) error {
	if len(ids) == 0 {
		return nil
	}
	_, err := q.Exec(ctx, `
		WITH locked AS MATERIALIZED (
			SELECT o.instance_id FROM observation o JOIN instance i ON i.id = o.instance_id
			WHERE o.instance_id = ANY($1) AND i.node_id IS DISTINCT FROM o.node_id
			ORDER BY o.instance_id FOR UPDATE OF o
		)
		DELETE FROM observation o USING locked WHERE o.instance_id = locked.instance_id`, uuids(ids))
	if err != nil {
		return fmt.Errorf("forget observations: %w", err)
	}
	return nil
}
