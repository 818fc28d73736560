// Package postgres is the only package that speaks SQL. It holds the pools, the
// transactions, the migrations, wakes and leadership, and one file of queries
// per resource, each function named resource first: InstanceGet(ctx, q, …).
//
// Three login roles, three pools (decision 2): tenon_api acts for people and
// sees one organisation at a time, tenon_system runs the loops, tenon_node acts
// for one node. A transaction says whom it is for in the round trip that begins
// it. Queries take a Querier, so that they run in or out of a transaction; only
// package app and the loops open one.
//
// Imports: pgx, goose, migrations, internal/cloud, internal/gpu.
package postgres
