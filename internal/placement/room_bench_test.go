package placement

import "testing"

// BenchmarkRoom: what a list of offers asks for each flavor, kind and pool.
func BenchmarkRoom(b *testing.B) {
	s, r := fleet(1000), slice(1, "2g")
	for b.Loop() {
		Room(s, r)
	}
}
