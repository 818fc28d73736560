package queue

// Booking is a place that a fleet gave; 0: none.
type Booking int32

// Fleet knows where things lie. What is done after a mark is only tried: every
// mark is rolled back, the latest first, and what is meant is then done again.
type Fleet interface {
	// Place books between min and max members of a class, or nothing.
	Place(class, min, max int) (b Booking, members int)
	// Release gives back what is placed, or ends a Block.
	Release(Booking)
	// Cut leaves the first members of a booking in their places.
	Cut(b Booking, members int)
	// Mark is a point to which Rollback undoes everything. Bookings that are gone,
	// and blocked by nobody, may be forgotten at the next first mark.
	Mark() int
	Rollback(mark int)
	// Block keeps, for later, what a booking held that was placed and rolled back.
	// Others may lie there now; once they are gone nobody else comes there.
	Block(Booking)
	// Never reports that so many members could not be placed if nothing else were.
	Never(class, min int) bool
	// Version grows when more may fit than before.
	Version() uint64
}
