package httpapi

import (
	"context"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/authz"
	"github.com/tenon-cloud/tenon/internal/cloud"
)

func (s *server) alarmOperations() {
	const tag = "Fleet"
	register(s, operation{method: "GET", path: "/v1/alarms", action: authz.AlarmList, tag: tag, summary: "List alarms", description: "Those that are not cleared, newest first."}, s.alarmList)
	register(s, operation{method: "POST", path: "/v1/alarms/{alarm}/acknowledge", action: authz.AlarmAcknowledge, tag: tag, summary: "Say that you have seen an alarm", status: 200}, s.alarmAcknowledge)
}

func (s *server) alarmList(ctx context.Context, in *struct {
	Paged
	All bool `query:"all" doc:"Cleared ones too"`
}) (*out[api.Page[api.Alarm]], error) {
	l, err := s.app.AlarmList(ctx, call(ctx, ""), !in.All, in.page())
	return pageOf(l, err, alarmOf)
}

func (s *server) alarmAcknowledge(ctx context.Context, in *struct {
	Strict
	Alarm string `path:"alarm" maxLength:"100"`
}) (*out[api.Alarm], error) {
	a, err := s.app.AlarmAcknowledge(ctx, call(ctx, ""), in.Alarm)
	return oneOf(a, err, alarmOf)
}

func alarmOf(a cloud.Alarm) api.Alarm {
	state := "open"
	switch {
	case a.ClearedAt != nil:
		state = "cleared"
	case a.AcknowledgedAt != nil:
		state = "acknowledged"
	}
	return api.Alarm{
		ID: a.ID.String(), Key: a.Key, Severity: a.Severity, State: state, Subject: a.Subject, Message: a.Message,
		OpenedAt: a.OpenedAt.UTC(), AcknowledgedAt: utc(a.AcknowledgedAt), ClearedAt: utc(a.ClearedAt),
	}
}
