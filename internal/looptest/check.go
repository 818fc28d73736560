package looptest

import (
	"testing"
)

// Check asserts what must hold at every moment between transactions.
func (w *World) Check(t testing.TB) {
	t.Helper()
	for what, sql := range map[string]string{
		"claims of an instance that is on no node": `
			SELECT count(*) FROM gpu_claim c JOIN instance i ON i.id = c.instance_id WHERE i.node_id IS NULL AND NOT c.fenced`,
		"claims of another epoch": `
			SELECT count(*) FROM gpu_claim c JOIN instance i ON i.id = c.instance_id WHERE i.epoch <> c.epoch AND NOT c.fenced`,
		"claims on another node than their instance's": `
			SELECT count(*) FROM gpu_claim c JOIN instance i ON i.id = c.instance_id JOIN gpu g ON g.id = c.gpu_id WHERE g.node_id <> i.node_id AND NOT c.fenced`,
		"placed instances without exactly their devices": `
			SELECT count(*) FROM instance i WHERE i.node_id IS NOT NULL
			AND (SELECT count(*) FROM gpu_claim c WHERE c.instance_id = i.id AND NOT c.fenced) <> i.gpu_count`,
		"overlapping claims": `
			SELECT count(*) FROM gpu_claim a JOIN gpu_claim b ON a.gpu_id = b.gpu_id AND a.id < b.id AND a.slots && b.slots`,
		"nodes that are oversold": `
			SELECT count(*) FROM node n WHERE floor(n.vcpu * n.cpu_overcommit) < (SELECT COALESCE(sum(vcpu), 0) FROM instance WHERE node_id = n.id)
			OR n.memory_mib < (SELECT COALESCE(sum(memory_mib), 0) FROM instance WHERE node_id = n.id)`,
		"instances that hold quota in the wrong state": `
			SELECT count(*) FROM instance WHERE holds_quota <> (state IN ('queued', 'starting', 'running', 'stopping', 'deleting') OR held)`,
		"limits whose use is not the sum of what holds them": `
			SELECT count(*) FROM project_quota q JOIN LATERAL (
				SELECT CASE q.resource
					WHEN 'instances' THEN count(*) FILTER (WHERE state <> 'deleted')
					WHEN 'vcpu' THEN COALESCE(sum(vcpu) FILTER (WHERE holds_quota), 0)
					WHEN 'memory_mib' THEN COALESCE(sum(memory_mib) FILTER (WHERE holds_quota), 0)
					ELSE COALESCE(sum(gpu_count * CASE gpu_profile WHEN '1g' THEN 125 WHEN '1g+me' THEN 125 WHEN '1g2' THEN 250
						WHEN '2g' THEN 250 WHEN '3g' THEN 500 WHEN '4g' THEN 500 ELSE 1000 END) FILTER (WHERE holds_quota), 0)
				END AS sum FROM instance i WHERE i.project_id = q.project_id
			) s ON true WHERE s.sum <> q.used`,
		"event numbers with holes": `
			SELECT count(*) FROM instance i WHERE i.event_seq <> (SELECT count(*) FROM event e WHERE e.resource_id = i.id)
			OR i.event_seq <> (SELECT COALESCE(max(seq), 0) FROM event e WHERE e.resource_id = i.id)`,
		// Late news of an earlier run is timed when it came, amid what is told of this one.
		"events out of order in time": `
			SELECT count(*) FROM event a JOIN event b ON b.resource_id = a.resource_id AND b.seq = a.seq + 1 WHERE b.at < a.at
			AND NOT (a.verb = 'node_back' AND (a.data->>'epoch')::bigint < (b.data->>'epoch')::bigint)`,
		"instances whose data is on another node than they are": `
			SELECT count(*) FROM instance i JOIN volume v ON v.instance_id = i.id WHERE i.node_id IS NOT NULL AND v.state IN ('present', 'lost') AND v.node_id <> i.node_id`,
		"volumes whose open segment is not of their size": `
			SELECT count(*) FROM volume v LEFT JOIN volume_segment s ON s.volume_id = v.id AND s.ended_at IS NULL WHERE v.charged_mib IS DISTINCT FROM s.size_mib`,
		"volumes of deleted instances that nobody asked to remove": `
			SELECT count(*) FROM volume v JOIN instance i ON i.id = v.instance_id WHERE i.state = 'deleted' AND v.state NOT IN ('deleting', 'deleted')`,
		"gangs of which only a part is placed": `
			SELECT count(*) FROM job j WHERE j.array_tasks = 0 AND j.state = 'starting' AND j.ending = ''
			AND (SELECT count(*) FROM instance i WHERE i.job_id = j.id AND i.job_rank < j.size AND i.epoch >= 1) < j.size`,
		"members on a node of gangs that wait": `
			SELECT count(*) FROM job j JOIN instance i ON i.job_id = j.id WHERE j.array_tasks = 0 AND j.state = 'queued' AND i.node_id IS NOT NULL`,
		"members on several nodes of gangs that need one": `
			SELECT count(*) FROM (SELECT i.job_id FROM instance i JOIN job j ON j.id = i.job_id
			WHERE j.array_tasks = 0 AND NOT j.across_nodes AND i.node_id IS NOT NULL GROUP BY i.job_id HAVING count(DISTINCT i.node_id) > 1) split`,
		"jobs' event numbers with holes": `
			SELECT count(*) FROM job j WHERE j.event_seq <> (SELECT count(*) FROM event e WHERE e.resource_id = j.id)`,
		"segments that overlap": `
			SELECT count(*) FROM segment a JOIN segment b ON a.instance_id = b.instance_id AND a.id < b.id
			AND tstzrange(a.started_at, a.ended_at) && tstzrange(b.started_at, b.ended_at)`,
	} {
		if n := One[int](t, w, sql); n != 0 {
			t.Errorf("%d %s", n, what)
		}
	}
}
