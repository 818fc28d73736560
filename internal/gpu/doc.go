// Package gpu knows what a GPU is to Tenon: the models, how each may be cut
// into MIG slices or divided in equal parts, and what is still free on a card. A
// MIG card's state is one byte (which memory slots are held) and one flag (whether
// its media engines are), so every question about it is a look-up in a table of
// 256 entries; equal parts are bits, and need none.
//
// A MIG profile is identified by its class ("1g", "1g+me", "1g2", "2g", "3g",
// "4g", "7g"); the driver's spelling ("1g.10gb") differs between boards and
// driver versions and is for display and input only.
//
// Pure. Imports: the standard library and internal/cloud.
package gpu
