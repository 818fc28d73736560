// Package gateway is the data door: logs, metrics and terminals of instances,
// from the node that holds them to whoever may see them. It takes a stream from
// the node's reverse connections, and what the node answers is untrusted: sizes
// are bounded, only the frames of the protocol pass.
//
//	browser or CLI ◄─ WebSocket: type byte + payload ─► Terminal ◄─ tenon-exec/1 frames ─► node
//	                                                      │ every few seconds: session, membership,
//	                                                      └ instance; ends with the reason
//
// It knows no API framework and no SQL. Imports: app, api, authz, cloud,
// nodewire, tunnel, coder/websocket.
package gateway
