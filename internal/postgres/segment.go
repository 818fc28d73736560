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

// Unmetered is an instance with events that no segment tells of yet.
type Unmetered struct {
	ID         cloud.InstanceID
	OrgID      cloud.OrgID
	ProjectID  cloud.ProjectID
	Kind       cloud.InstanceKind
	MeteredSeq int64
	EventSeq   int64
}

// MeterLock locks instances with new events, in the order of their ids after
// one, passing over those that somebody else works on.
func MeterLock(ctx context.Context, q Querier, after cloud.InstanceID, limit int) ([]Unmetered, error) {
	rows, err := q.Query(ctx, `
		SELECT id, org_id, project_id, kind, metered_seq, event_seq FROM instance
		WHERE metered_seq < event_seq AND id > $1
		ORDER BY id LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED`, after.UUID(), limit)
	if err != nil {
		return nil, fmt.Errorf("lock unmetered instances: %w", err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Unmetered])
	if err != nil {
		return nil, fmt.Errorf("lock unmetered instances: %w", err)
	}
	return out, nil
}

// MeterEvent is an event as the meter reads it.
type MeterEvent struct {
	InstanceID cloud.InstanceID
	ID         cloud.EventID
	Seq        int64
	At         time.Time
	Data       json.RawMessage
}

// Segment is a charged stretch of an instance.
type Segment struct {
	ID         cloud.SegmentID
	OrgID      cloud.OrgID
	ProjectID  cloud.ProjectID
	InstanceID cloud.InstanceID
	Kind       cloud.InstanceKind
	State      cloud.InstanceState
	Shape      cloud.Shape // without the disk, which is not charged
	StartedAt  time.Time
	EndedAt    *time.Time // nil: open
}

// SegmentEnd closes a segment.
type SegmentEnd struct {
	ID      cloud.SegmentID
	EndedAt time.Time
}

// UsageCorrection moves the end of a closed segment.
type UsageCorrection struct {
	ID         uuid.UUID
	OrgID      cloud.OrgID
	SegmentID  cloud.SegmentID
	InstanceID cloud.InstanceID // read only
	By         time.Duration
	Cause      string
}

// MeterHistory is all that is known and stored of instances.
type MeterHistory struct {
	Events      map[cloud.InstanceID][]MeterEvent // by Seq
	Segments    map[cloud.InstanceID][]Segment    // by start
	Corrections map[cloud.InstanceID][]UsageCorrection
}

// MeterRead reads the histories of locked instances in one round trip.
func MeterRead(ctx context.Context, q Querier, ids []cloud.InstanceID) (MeterHistory, error) {
	h := MeterHistory{map[cloud.InstanceID][]MeterEvent{}, map[cloud.InstanceID][]Segment{}, map[cloud.InstanceID][]UsageCorrection{}}
	var batch pgx.Batch
	batch.Queue(`
		SELECT resource_id, id, seq, at, data FROM event
		WHERE resource_id = ANY($1) ORDER BY resource_id, seq`, uuids(ids)).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var e MeterEvent
			if err := rows.Scan(&e.InstanceID, &e.ID, &e.Seq, &e.At, &e.Data); err != nil {
				return err
			}
			h.Events[e.InstanceID] = append(h.Events[e.InstanceID], e)
		}
		return rows.Err()
	})
	batch.Queue(`
		SELECT id, org_id, project_id, instance_id, kind, state, gpu_count, gpu_model, gpu_mode, gpu_profile, vcpu, memory_mib, started_at, ended_at
		FROM segment WHERE instance_id = ANY($1) ORDER BY started_at, ended_at`, uuids(ids)).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var s Segment
			if err := rows.Scan(&s.ID, &s.OrgID, &s.ProjectID, &s.InstanceID, &s.Kind, &s.State, &s.Shape.GPUCount, &s.Shape.GPUModel,
				&s.Shape.GPUMode, &s.Shape.GPUProfile, &s.Shape.VCPU, &s.Shape.MemoryMiB, &s.StartedAt, &s.EndedAt); err != nil {
				return err
			}
			h.Segments[s.InstanceID] = append(h.Segments[s.InstanceID], s)
		}
		return rows.Err()
	})
	batch.Queue(`
		SELECT c.id, c.org_id, c.segment_id, s.instance_id, (c.seconds * 1000000)::bigint, c.cause
		FROM usage_correction c JOIN segment s ON s.id = c.segment_id
		WHERE s.instance_id = ANY($1) ORDER BY c.id`, uuids(ids)).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var c UsageCorrection
			var micros int64
			if err := rows.Scan(&c.ID, &c.OrgID, &c.SegmentID, &c.InstanceID, &micros, &c.Cause); err != nil {
				return err
			}
			c.By = time.Duration(micros) * time.Microsecond
			h.Corrections[c.InstanceID] = append(h.Corrections[c.InstanceID], c)
		}
		return rows.Err()
	})
	if err := q.SendBatch(ctx, &batch).Close(); err != nil {
		return h, fmt.Errorf("read metering histories: %w", err)
	}
	return h, nil
}

// MeterWrite is what one batch adds to the books.
type MeterWrite struct {
	Ends        []SegmentEnd
	Segments    []Segment
	Corrections []UsageCorrection
	Metered     []Unmetered // EventSeq becomes MeteredSeq
}

// MeterSave writes the books in one round trip, ends first, so that what begins
// overlaps nothing.
func MeterSave(ctx context.Context, q Querier, w MeterWrite) error {
	type end struct {
		ID      uuid.UUID `json:"id"`
		EndedAt time.Time `json:"ended_at"`
	}
	type segment struct {
		ID         uuid.UUID  `json:"id"`
		OrgID      uuid.UUID  `json:"org_id"`
		ProjectID  uuid.UUID  `json:"project_id"`
		InstanceID uuid.UUID  `json:"instance_id"`
		Kind       string     `json:"kind"`
		State      string     `json:"state"`
		GPUCount   int        `json:"gpu_count"`
		GPUModel   string     `json:"gpu_model"`
		GPUMode    string     `json:"gpu_mode"`
		GPUProfile string     `json:"gpu_profile"`
		VCPU       int        `json:"vcpu"`
		MemoryMiB  int64      `json:"memory_mib"`
		StartedAt  time.Time  `json:"started_at"`
		EndedAt    *time.Time `json:"ended_at"`
	}
	type correction struct {
		ID        uuid.UUID `json:"id"`
		OrgID     uuid.UUID `json:"org_id"`
		SegmentID uuid.UUID `json:"segment_id"`
		Micros    int64     `json:"micros"`
		Cause     string    `json:"cause"`
	}
	var ends []end
	for _, e := range w.Ends {
		ends = append(ends, end{e.ID.UUID(), e.EndedAt})
	}
	var segments []segment
	for _, s := range w.Segments {
		segments = append(segments, segment{s.ID.UUID(), s.OrgID.UUID(), s.ProjectID.UUID(), s.InstanceID.UUID(), string(s.Kind), string(s.State),
			s.Shape.GPUCount, s.Shape.GPUModel, string(s.Shape.GPUMode), s.Shape.GPUProfile, s.Shape.VCPU, s.Shape.MemoryMiB, s.StartedAt, s.EndedAt})
	}
	var corrections []correction
	for _, c := range w.Corrections {
		corrections = append(corrections, correction{c.ID, c.OrgID.UUID(), c.SegmentID.UUID(), c.By.Microseconds(), c.Cause})
	}
	ids, seqs := make([]uuid.UUID, len(w.Metered)), make([]int64, len(w.Metered))
	for i, m := range w.Metered {
		ids[i], seqs[i] = m.ID.UUID(), m.EventSeq
	}
	var batch pgx.Batch
	if len(ends) > 0 {
		batch.Queue(`
			UPDATE segment s SET ended_at = r.ended_at
			FROM json_to_recordset($1::json) AS r (id uuid, ended_at timestamptz) WHERE s.id = r.id`, asJSON(ends))
	}
	if len(segments) > 0 {
		batch.Queue(`
			INSERT INTO segment (id, org_id, project_id, instance_id, kind, state, gpu_count, gpu_model, gpu_mode, gpu_profile, vcpu, memory_mib, started_at, ended_at, simulated)
			SELECT id, org_id, project_id, instance_id, kind, state, gpu_count, gpu_model, gpu_mode, gpu_profile, vcpu, memory_mib, started_at, ended_at,
				EXISTS (SELECT FROM instance i JOIN node n ON n.id = i.node_id WHERE i.id = r.instance_id AND n.simulated)
				OR EXISTS (SELECT FROM gpu_stay y JOIN gpu g ON g.id = y.gpu_id WHERE y.instance_id = r.instance_id AND g.simulated
					AND y.started_at <= COALESCE(r.ended_at, 'infinity') AND COALESCE(y.ended_at, 'infinity') >= r.started_at)
			FROM json_to_recordset($1::json) AS r (id uuid, org_id uuid, project_id uuid, instance_id uuid, kind text, state text,
				gpu_count int, gpu_model text, gpu_mode text, gpu_profile text, vcpu int, memory_mib bigint, started_at timestamptz, ended_at timestamptz)`, asJSON(segments))
	}
	if len(corrections) > 0 {
		batch.Queue(`
			INSERT INTO usage_correction (id, org_id, segment_id, seconds, cause)
			SELECT id, org_id, segment_id, micros::numeric / 1000000, cause
			FROM json_to_recordset($1::json) AS r (id uuid, org_id uuid, segment_id uuid, micros bigint, cause text)`, asJSON(corrections))
	}
	batch.Queue(`
		UPDATE instance i SET metered_seq = r.seq
		FROM unnest($1::uuid[], $2::bigint[]) AS r (id, seq) WHERE i.id = r.id`, ids, seqs)
	if err := q.SendBatch(ctx, &batch).Close(); err != nil {
		return fmt.Errorf("write segments: %w", err)
	}
	return nil
}
