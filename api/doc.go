// Package api is the contract of Tenon's HTTP interface: the types on the wire,
// a Go client that is the public SDK, and openapi.yaml, which `tenond openapi`
// writes from the server's own operations.
//
// JSON is snake_case, times are RFC 3339 in UTC, sizes end in _mib or _bytes,
// money is in integer millionths (_micros) of the currency beside it, and a list
// is {items, next_page_token}.
//
// Imports: the standard library and github.com/coder/websocket; nothing of
// Tenon's own, so that anyone may import it.
package api
