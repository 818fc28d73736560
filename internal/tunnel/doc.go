// Package tunnel carries streams from the control plane to nodes that it can't
// dial: the node dials, keeps a few idle TLS connections at the node door, and
// the control plane takes one whenever it needs a stream. Inside each the node
// serves HTTP/1.1, and raw bytes after an Upgrade.
//
//	node: Dialer                                   control plane: Pool
//	dial ─► TLS ─► GET /v1/connect, Upgrade ──────► Accept ─► Add: idle
//	                                                  │ DialContext, Transport
//	first byte of a request: dial a replacement ◄─────┘ in use ─► closed
//
// There is no multiplexer: each stream is a connection of its own, so a stalled
// download can't stall a terminal and the kernel does the flow control.
//
// It knows no payload and imports the standard library only.
package tunnel
