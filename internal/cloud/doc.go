// Package cloud is Tenon's vocabulary: the resources, their states and the
// legal moves between them, ids, names and the one error type that every floor
// returns. It decides nothing that needs a clock, a database or a network.
//
// Imports: the standard library and google/uuid only. Everything may import it.
package cloud
