package app

import (
	"maps"
	"strconv"
	"strings"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/nodewire"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// asMember gives a job's member what it needs to know of the others: the variables
// that torchrun and its like read, and names to find them by. What the tenant set
// wins, except the platform's own names. One rule says who meets: the members of a
// gang that is placed on one node. Nodes' networks are not joined, so a gang across
// nodes gets its ranks and no address.
func asMember(out *nodewire.Instance, x postgres.Assigned, all []postgres.Assigned) {
	if x.JobID.IsZero() {
		return
	}
	env := map[string]string{"LOCAL_RANK": "0"}
	own := map[string]string{"TENON_JOB": x.JobName, "TENON_ATTEMPT": strconv.Itoa(x.JobAttempt)}
	if x.JobTasks > 0 {
		env["RANK"], env["NODE_RANK"], env["WORLD_SIZE"] = "0", "0", "1"
		env["MASTER_ADDR"], env["MASTER_PORT"] = x.Name, strconv.Itoa(cloud.MasterPort)
		own["TENON_ARRAY_INDEX"], own["TENON_ARRAY_SIZE"], own["TENON_MEMBERS"] = strconv.Itoa(x.JobRank), strconv.Itoa(x.JobTasks), x.Name
	} else {
		names := make([]string, x.JobSize)
		for rank := range names {
			names[rank] = cloud.MemberName(x.JobName, rank)
		}
		rank := strconv.Itoa(x.JobRank)
		env["RANK"], env["NODE_RANK"], env["WORLD_SIZE"] = rank, rank, strconv.Itoa(x.JobSize)
		own["TENON_MEMBERS"] = strings.Join(names, ",")
		if !x.JobAcross {
			env["MASTER_ADDR"], env["MASTER_PORT"] = cloud.MemberName(x.JobName, 0), strconv.Itoa(cloud.MasterPort)
			if x.JobSize > 1 {
				out.Group, out.Peers = x.JobID.String(), peersOf(x, all)
			}
		}
	}
	maps.Copy(env, x.Env)
	maps.Copy(env, own)
	out.Env = env
}

// peersOf are the members of a gang that are on its node, itself among them.
func peersOf(x postgres.Assigned, all []postgres.Assigned) (out []nodewire.Peer) {
	for _, p := range all {
		if p.JobID == x.JobID {
			out = append(out, nodewire.Peer{ID: p.ID.String(), Epoch: p.Epoch, Name: p.Name})
		}
	}
	return out
}
