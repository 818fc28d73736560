// Package agent is the node's loop: it takes the assignment that the control
// plane pushes, writes it to its ledger, and makes the node so, one idempotent
// step at a time and one goroutine an instance.
//
//	PUT /assignment ─► ledger ─► wake ─► worker: want × record × guest × devices
//	                                       │         └─► decide ─► one step
//	reports ◄── published state ◄──────────┘
//
//	make ─► watch ─► end ─► finish ─► (reported stopped, failed or gone)
//	  ▲       │ other generation: restart
//	  └───────┘            absent from the assignment ─► forget
//
// A run's end is written before anything is given back, and reported only once
// the engine and the board no longer show a trace of it. An epoch ends once:
// nothing but a newer epoch runs that instance again. What is in the engine and
// in no record was never ours: it is reported as an orphan and left alone.
//
// It may import the node's packages (hypervisor, device, nodewire, tunnel); the
// control plane's never.
package agent
