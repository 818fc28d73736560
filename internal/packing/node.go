package packing

// MaxCards is how many cards a node has at most.
const MaxCards = 16

// Milli is a whole card, in thousandths.
const Milli = 1000

// Node is what is free on one node, in few bytes.
type Node struct {
	CPUMilli  int32
	MemoryMiB int32
	Model     uint8 // of its cards; see Request.Models
	Cards     uint8
	Free      [MaxCards]int16 // thousandths of each card; Milli: nobody has any of it
}

// Request is what an instance asks for. Equal requests are of one class.
type Request struct {
	CPUMilli  int32
	MemoryMiB int32
	Cards     uint8  // 0: none
	Milli     int16  // of the one card; Milli: whole cards
	Models    uint64 // bits of the models that will do; 0: any
}

// Shared reports whether the request is for a part of one card.
func (r *Request) Shared() bool { return r.Cards == 1 && r.Milli < Milli }

// Demand is what the request takes of cards, in thousandths.
func (r *Request) Demand() int64 { return int64(r.Cards) * int64(r.Milli) }

// Takes reports whether the node has a card of a model that will do.
func (r *Request) Takes(model uint8) bool { return r.Models == 0 || r.Models>>model&1 != 0 }

// Whole is how many cards nobody has any of.
func (n *Node) Whole() int {
	whole := 0
	for _, f := range n.Free[:n.Cards] {
		if f == Milli {
			whole++
		}
	}
	return whole
}

// Idle is what is free of all cards, in thousandths.
func (n *Node) Idle() int64 {
	var sum int64
	for _, f := range n.Free[:n.Cards] {
		sum += int64(f)
	}
	return sum
}

// Fits reports whether the request has a place on the node.
func (n *Node) Fits(r *Request) bool {
	if n.CPUMilli < r.CPUMilli || n.MemoryMiB < r.MemoryMiB {
		return false
	}
	if r.Cards == 0 {
		return true
	}
	if !r.Takes(n.Model) {
		return false
	}
	fit := uint8(0)
	for _, f := range n.Free[:n.Cards] {
		if f >= r.Milli {
			fit++
		}
	}
	return fit >= r.Cards
}

// Take books the request: its part on the card, or the first whole ones.
func (n *Node) Take(r *Request, card int) {
	n.CPUMilli -= r.CPUMilli
	n.MemoryMiB -= r.MemoryMiB
	if r.Shared() {
		n.Free[card] -= r.Milli
		return
	}
	left := r.Cards
	for i := 0; left > 0; i++ {
		if n.Free[i] == Milli {
			n.Free[i] = 0
			left--
		}
	}
}
