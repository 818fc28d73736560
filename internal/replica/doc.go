// Package replica is what the processes of one control plane are to each other.
// Each writes that it lives and which nodes are connected to it, and opens a door
// for the others, at which it hands out streams to those nodes. So a terminal, a
// log or a web page works from whichever process the user's request came to,
// while a node's assignment is pushed by the process that holds its connections.
//
//	request ─► this process ── no connection of the node here
//	                │ node_connection: which process has one?
//	                ▼
//	          its peer door (mutual TLS, identity …/replica/<id>) ─► its tunnel.Pool ─► node
//
// The door takes a node's id and nothing else; a node's certificate is refused
// there, and a replica's at the nodes' door.
//
// Imports: app, authn, cloud, tunnel.
package replica
