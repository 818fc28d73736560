// Package devcloud is the supervisor behind `tenond dev`: one whole cloud on
// one machine, from one folder, beside any other.
//
//	lock ─► place (var, /run, ports) ─► postgres ─► serve ─► containerd ─► agent ─► watch
//	                                       ▲ restarted with back-off, adopted when it outlived us
//	Ctrl-C ─► agent ─► guests ─► containerd ─► serve ─► postgres ─► mounts, bridge, rules
//
// Everything that it starts carries the cloud's id, so that it stops all of
// that and nothing else. Children are kept by pid file, start time and command
// line; each has its own session and writes to its own log file, so that
// killing the supervisor harms none of them.
//
// It wires both sides together, and so may import what each side offers for
// that; nothing imports it but cmd/tenond.
package devcloud
