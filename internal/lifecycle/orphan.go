package lifecycle

import (
	"context"
	"fmt"
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

const (
	// orphanAlarms is how many orphans of a node have an alarm each; more share one.
	orphanAlarms = 20
	// certificateSoon is how long before its end a certificate should have been
	// renewed.
	certificateSoon = 4 * time.Hour
)

// Alarms opens alarms for what is so now, and clears those for what is over. One
// that stays keeps what a person did with it.
func (l *Lifecycle) Alarms(ctx context.Context) error {
	return ended(l.cfg.Leader.In(ctx, func(tx *postgres.Tx) error {
		nodes, err := postgres.ConditionList(ctx, tx)
		if err != nil {
			return err
		}
		volumes, err := postgres.VolumesLost(ctx, tx)
		if err != nil {
			return err
		}
		cards, err := postgres.CardConditionList(ctx, tx)
		if err != nil {
			return err
		}
		var want []cloud.Alarm
		for _, c := range cards {
			want = append(want, cardAlarms(c)...)
		}
		for _, n := range nodes {
			want = append(want, nodeAlarms(n)...)
		}
		for _, v := range volumes {
			why := or(v.Message, "its node has not got it")
			if v.Node != "" {
				why += " (node " + v.Node + "); it is found again once the node has it"
			}
			want = append(want, cloud.Alarm{Key: fmt.Sprintf("volume:%s:lost", v.ID), Severity: "critical", Subject: v.ID.String(),
				Message: fmt.Sprintf("the %s volume of instance %s (%s) is lost: %s", v.Role, v.InstanceName, v.OrgName, why)})
		}
		if err := postgres.AlarmsSettle(ctx, tx, want); err != nil {
			return err
		}
		done, err := postgres.RemovalsClear(ctx, tx)
		if err != nil {
			return err
		}
		for _, id := range done {
			tx.Wake(postgres.TopicNode(id))
		}
		return postgres.NodesTouch(ctx, tx, done)
	}))
}

// nodeAlarms is what about one node needs a person.
func nodeAlarms(n postgres.Condition) []cloud.Alarm {
	var out []cloud.Alarm
	raise := func(what, severity, format string, args ...any) {
		out = append(out, cloud.Alarm{Key: fmt.Sprintf("node:%s:%s", n.ID, what), Severity: severity, Subject: n.ID.String(), Message: fmt.Sprintf(format, args...)})
	}
	if n.State == cloud.NodeLost {
		out = append(out, lostAlarm(n.ID, n.Name))
	}
	if n.Fenced {
		by := "has been silent for so long that it has ended by itself what may restart elsewhere"
		if n.Confirmed {
			by = "was confirmed to be off"
		}
		raise("fenced", "critical", "node %s %s; nothing is placed on it until it has reported that nothing is left, or is forgotten", n.Name, by)
	}
	for i, o := range n.Orphans {
		if i == orphanAlarms {
			raise("orphans", "warning", "node %s has %d things that nobody assigned; only the first %d have an alarm of their own", n.Name, len(n.Orphans), orphanAlarms)
			break
		}
		raise("orphan:"+o.ID, "warning", "node %s has %s (%s, %s), which nobody assigned; it goes on until an operator lets the node remove it", n.Name, o.ID, o.Driver, o.What)
	}
	if !n.Watchdog && n.Restarts > 0 {
		raise("watchdog", "warning", "node %s runs %d that should restart elsewhere if it is lost, and has no watchdog: they will wait until an operator confirms that it is off", n.Name, n.Restarts)
	}
	if n.UnknownCards > 0 {
		raise("probe", "critical", "the GPU probe of node %s fails: %d of its cards are unknown; none is removed, and none is freed", n.Name, n.UnknownCards)
	}
	if n.CertificateFor != nil && *n.CertificateFor < certificateSoon {
		state := "ends within " + (*n.CertificateFor).Round(time.Minute).String()
		if *n.CertificateFor <= 0 {
			state = "has ended: it can't come back without a new join token"
		}
		raise("certificate", "critical", "the certificate of node %s was not renewed and %s", n.Name, state)
	}
	return out
}

func lostAlarm(id cloud.NodeID, name string) cloud.Alarm {
	return cloud.Alarm{Key: lostKey(id), Severity: "critical", Subject: id.String(),
		Message: fmt.Sprintf("node %s has not been heard of for %d minutes; what it held stays held until it reports", name, int(lostAfter.Minutes()))}
}
