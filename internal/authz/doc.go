// Package authz says who may do what: one table of actions and roles. It knows
// no request and no database; whether a resource belongs to an organisation is
// for the caller to have looked up, and a foreign one is the caller's 404.
//
// Imports: the standard library and internal/cloud only.
package authz
