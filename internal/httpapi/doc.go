// Package httpapi is the door for people and programs: the table of operations,
// who may call each, the one map from kinds of error to statuses, and the
// translation between the wire (package api) and the domain (package cloud).
// Handlers are thin: parse, one call of package app or gateway, wrap.
//
//	request ─► recover ─► request id ─► access log ─► headers ─► gzip ─► route
//	  operation: authenticate ─► validate all at once ─► handler ─► Problem or answer
//	  other: on the public list, with its reason
//
// It is the only package that knows the API framework. Imports: huma, chi,
// prometheus, api, app, gateway, authz, cloud, gpu, web.
package httpapi
