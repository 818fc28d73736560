// Package nodeapi is the nodes' door: its own port, TLS with the node CA, and a
// client certificate for everything but enrolment. Who a node is comes from its
// certificate alone; what it says is cut to size and checked before anyone
// stores it (decision 6).
//
//	enrol: join token + CSR ─► certificate
//	/v1/connect ─► tunnel.Pool          one pusher per connected node:
//	/v1/reports ─► clean ─► app           woken, connected, behind ─► read assignment ─► PUT, one in flight
//	/v2/        ─► registry, pull only    200 ─► acknowledged; failure ─► again, later each time
//	every 2 s: is each connected certificate still good? else all its connections end
//
// Imports: app, authn, tunnel, nodewire, registry, gpu, cloud.
package nodeapi
