package wall

import (
	"path"
	"slices"
	"strings"
)

// The kinds of package besides the numbered floors.
const (
	node   = 10 // runs on a hypervisor: meets the control plane in nodewire and tunnel only
	wiring = 20 // puts everything together; nothing but a main package imports it
	aid    = 30 // for tests and proofs: production code doesn't import it
)

// floors is ARCHITECTURE.md's table: imports only go down. A package's folders
// below it are on its floor.
var floors = map[string]int{
	"internal/cloud": 1, "internal/gpu": 1, "internal/nodewire": 1, "internal/tunnel": 1, "internal/loop": 1, "internal/durable": 1, "internal/kernelfile": 1,
	"internal/registry": 1, "internal/imagebuild": 1, "migrations": 1, "api": 1, "web": 1,
	"internal/placement": 2, "internal/packing": 2, "internal/fairshare": 2, "internal/queue": 2, "internal/billing": 2, "internal/authz": 2, "internal/postgres": 2,
	"internal/simulate": 3, "internal/app": 3, "internal/authn": 3, "internal/scheduler": 3, "internal/lifecycle": 3, "internal/metering": 3, "internal/metrics": 3,
	"internal/httpapi": 4, "internal/nodeapi": 4, "internal/gateway": 4, "internal/replica": 4, "internal/cli": 4,
	"internal/agent": node, "internal/hypervisor": node, "internal/device": node, "internal/image": node, "internal/network": node, "internal/volume": node, "internal/preflight": node,
	"internal/devcloud": wiring, "internal/backup": wiring, "cmd": wiring,
	"internal/cloudtest": aid, "internal/pgtest": aid, "internal/looptest": aid, "internal/hypervisor/hvtest": aid, "internal/device/pci/recorded": aid, "internal/device/nvml/simnvml": aid, "internal/proof": aid, "internal/wall": aid, "deploy": aid,
}

// sideways are the imports between packages of one floor, each with its reason.
var sideways = map[[2]string]string{
	{"internal/queue", "internal/fairshare"}:     "who goes first is a question of shares",
	{"internal/placement", "internal/fairshare"}: "its tests let the queue divide a board",
	{"internal/placement", "internal/queue"}:     "a board is the queue's fleet",
	{"internal/placement", "internal/packing"}:   "which of the possible places is best is packing's to say",
	{"internal/gpu", "internal/cloud"}:           "a GPU's slots are words of the vocabulary",
	{"internal/imagebuild", "internal/cloud"}:    "as any package",
	{"internal/postgres", "internal/authz"}:      "roles are stored",
	{"internal/app", "internal/authn"}:           "use-cases check credentials",
	{"internal/httpapi", "internal/gateway"}:     "terminals begin as requests",
	{"internal/nodeapi", "internal/gateway"}:     "a node's connections serve the data door",
	{"internal/gateway", "internal/nodeapi"}:     "the data door reaches nodes",
}

// apiUsers may know the wire types.
var apiUsers = []string{"internal/httpapi", "internal/gateway", "internal/cli", "internal/devcloud", "cmd", "internal/cloudtest", "internal/proof"}

// floorOf finds a folder's package in the table.
func floorOf(dir string) (name string, floor int) {
	for d := dir; d != "." && d != "/"; d = path.Dir(d) {
		if f, ok := floors[d]; ok {
			return d, f
		}
	}
	return dir, 0
}

// brokenWall gives the rule that an import of our own breaks; empty: none.
func brokenWall(from, to string, test bool) string {
	fromName, fromFloor := floorOf(from)
	toName, toFloor := floorOf(to)
	switch {
	case fromFloor == 0:
		return "every package is in the table of floors (internal/wall/floors.go, ARCHITECTURE.md): " + fromName + " is not"
	case toFloor == 0:
		return "every package is in the table of floors (internal/wall/floors.go, ARCHITECTURE.md): " + toName + " is not"
	case fromName == toName:
		return ""
	case toFloor == wiring && from != "cmd/tenond" && from != "cmd/tenon-agent":
		return "nothing imports the wiring but the main packages"
	case toFloor == aid && !test && fromFloor != aid:
		return "production code imports nothing that is for tests"
	case toName == "api" && !slices.Contains(apiUsers, fromName) && !test:
		return "only the doors, the command line and the wiring know the wire types of package api"
	case fromName == "api":
		return "package api is the public contract and imports nothing of Tenon's"
	case fromName == "internal/cli" && toName != "api" && toName != "internal/simulate" && !test:
		return "the command line knows the public client alone, and the simulator, which needs no cloud"
	case from == "cmd/tenon" && toName != "internal/cli":
		return "cmd/tenon is internal/cli and nothing else"
	case from == "cmd/tenon-agent" && toFloor > 1 && toFloor < node:
		return "node packages and control-plane packages never import each other; they meet in nodewire and tunnel"
	case fromFloor == wiring || fromFloor == aid || test && toFloor == aid:
		return ""
	case fromFloor == node && toFloor > 1 && toFloor < node, fromFloor < node && toFloor == node:
		return "node packages and control-plane packages never import each other; they meet in nodewire and tunnel"
	case fromFloor == node, toFloor < fromFloor:
		return ""
	case sideways[[2]string{fromName, toName}] != "":
		return ""
	}
	return "imports only go down: " + fromName + " is on floor " + digit(fromFloor) + ", " + toName + " on floor " + digit(toFloor)
}

func digit(n int) string { return string(rune('0' + n)) }

// reserve keeps a library to the packages that are there to know it.
type reserve struct {
	library string // import path, or its beginning
	users   []string
	rule    string
}

// bare is a program that the agent is compared with: it has the agent's libraries.
const bare = "internal/proof/agent/bare"

var reserves = []reserve{
	{"github.com/jackc/pgx/", []string{"internal/postgres", "internal/pgtest", "internal/looptest", "internal/proof", "internal/cloudtest",
		"internal/devcloud"}, // it starts the server and makes its database, before there is a schema
		"only package postgres speaks SQL"},
	{"github.com/pressly/goose/", []string{"internal/postgres"}, "only package postgres speaks SQL"},
	{"database/sql", []string{"internal/postgres", "internal/cloud"}, "only package postgres speaks SQL (cloud implements database/sql/driver.Valuer)"},
	{"github.com/danielgtaylor/huma/", []string{"internal/httpapi"}, "only httpapi knows the API framework"},
	{"github.com/go-chi/chi/", []string{"internal/httpapi", "internal/nodeapi", "internal/gateway", "cmd"}, "only the doors know a router"},
	{"github.com/containerd/containerd/", []string{"internal/hypervisor/containerd", "internal/image", bare}, "only hypervisor/containerd and image know containerd"},
	{"github.com/digitalocean/go-libvirt", []string{"internal/hypervisor/libvirt", bare}, "only hypervisor/libvirt knows libvirt"},
	{"github.com/NVIDIA/go-nvml/", []string{"internal/device/nvml", bare}, "only device/nvml knows NVML"},
	{"github.com/NVIDIA/nvidia-container-toolkit/", []string{"internal/device/nvml", bare}, "only device/nvml knows nvcdi"},
	{"github.com/distribution/distribution/", []string{"internal/registry"}, "only registry knows the registry's library"},
	{"github.com/spf13/cobra", []string{"internal/cli", "cmd"}, "only the command lines know cobra"},
	{"C", []string{"internal/device/nvml"}, "the agent's NVML binding is the only cgo"},
}

// pure packages decide and know no world: no files, network, database, clock,
// context or log.
var pure = []string{"internal/cloud", "internal/gpu", "internal/placement", "internal/packing", "internal/fairshare", "internal/queue", "internal/billing", "internal/authz"}

var worldly = []string{"context", "log", "net", "os", "syscall", "io/fs", "io/ioutil", "path/filepath", "database/sql", "testing/synctest", "golang.org/x/sys", "github.com/jackc/pgx"}

// brokenReserve gives the rule that an import from outside breaks.
func brokenReserve(from, target string, test bool) string {
	name, _ := floorOf(from)
	for _, r := range reserves {
		if target != r.library && !strings.HasPrefix(target, strings.TrimSuffix(r.library, "/")+"/") {
			continue
		}
		if !test && !slices.ContainsFunc(r.users, func(u string) bool { return from == u || strings.HasPrefix(from, u+"/") }) {
			return r.rule
		}
	}
	if slices.Contains(pure, name) && !test && target != "database/sql/driver" {
		if slices.ContainsFunc(worldly, func(w string) bool { return target == w || strings.HasPrefix(target, w+"/") }) {
			return "cloud, gpu, placement, packing, fairshare, queue, billing and authz import no I/O, clock, context or log"
		}
	}
	return ""
}
