package cloud

import (
	"crypto/sha256"
	"database/sql/driver"
	"fmt"
	"strings"

	"github.com/google/uuid"
)

// Resource marks the kind of thing an ID names and gives its printed prefix.
type Resource interface{ IDPrefix() string }

// ID is a UUIDv7 typed by what it names, so that an instance's id can't be
// handed to a function that wants a project's. Its text form is
// "<prefix>_<26 lower-case Crockford base-32 characters>"; a name never
// contains "_", so a path segment can hold either.
type ID[R Resource] uuid.UUID

type (
	orgRes        struct{}
	projectRes    struct{}
	userRes       struct{}
	tokenRes      struct{}
	sessionRes    struct{}
	poolRes       struct{}
	nodeRes       struct{}
	gpuRes        struct{}
	claimRes      struct{}
	gpuStayRes    struct{}
	flavorRes     struct{}
	imageRes      struct{}
	instanceRes   struct{}
	eventRes      struct{}
	segmentRes    struct{}
	alarmRes      struct{}
	priceRes      struct{}
	volumeRes     struct{}
	credentialRes struct{}
	jobRes        struct{}
)

func (orgRes) IDPrefix() string        { return "org" }
func (projectRes) IDPrefix() string    { return "prj" }
func (userRes) IDPrefix() string       { return "usr" }
func (tokenRes) IDPrefix() string      { return "tok" }
func (sessionRes) IDPrefix() string    { return "ses" }
func (poolRes) IDPrefix() string       { return "pool" }
func (nodeRes) IDPrefix() string       { return "node" }
func (gpuRes) IDPrefix() string        { return "gpu" }
func (claimRes) IDPrefix() string      { return "clm" }
func (gpuStayRes) IDPrefix() string    { return "hold" }
func (flavorRes) IDPrefix() string     { return "flv" }
func (imageRes) IDPrefix() string      { return "img" }
func (instanceRes) IDPrefix() string   { return "inst" }
func (eventRes) IDPrefix() string      { return "evt" }
func (segmentRes) IDPrefix() string    { return "seg" }
func (alarmRes) IDPrefix() string      { return "alm" }
func (priceRes) IDPrefix() string      { return "prc" }
func (volumeRes) IDPrefix() string     { return "vol" }
func (credentialRes) IDPrefix() string { return "crd" }
func (jobRes) IDPrefix() string        { return "job" }

type (
	OrgID        = ID[orgRes]
	ProjectID    = ID[projectRes]
	UserID       = ID[userRes]
	TokenID      = ID[tokenRes]
	SessionID    = ID[sessionRes]
	PoolID       = ID[poolRes]
	NodeID       = ID[nodeRes]
	GPUID        = ID[gpuRes]
	ClaimID      = ID[claimRes]
	GPUStayID    = ID[gpuStayRes]
	FlavorID     = ID[flavorRes]
	ImageID      = ID[imageRes]
	InstanceID   = ID[instanceRes]
	EventID      = ID[eventRes]
	SegmentID    = ID[segmentRes]
	AlarmID      = ID[alarmRes]
	PriceID      = ID[priceRes]
	VolumeID     = ID[volumeRes]
	CredentialID = ID[credentialRes]
	JobID        = ID[jobRes]
)

const crockford = "0123456789abcdefghjkmnpqrstvwxyz"

// NewID makes a fresh UUIDv7: ids made later sort later.
func NewID[R Resource]() ID[R] { return ID[R](uuid.Must(uuid.NewV7())) }

// New makes a fresh id of the same kind: cloud.InstanceID{}.New().
func (ID[R]) New() ID[R] { return NewID[R]() }

// DerivedID is the same id for the same words, for rows that must be written
// once however often their cause is seen (events, segments, corrections).
func DerivedID[R Resource](words ...string) ID[R] {
	sum := sha256.Sum256([]byte(strings.Join(words, "\x00")))
	var u uuid.UUID
	copy(u[:], sum[:16])
	u[6] = u[6]&0x0f | 0x80 // version 8: made by the application
	u[8] = u[8]&0x3f | 0x80
	return ID[R](u)
}

// ParseID reads the printed form, or a bare UUID.
func ParseID[R Resource](s string) (ID[R], error) {
	var r R
	if rest, ok := strings.CutPrefix(s, r.IDPrefix()+"_"); ok && len(rest) == 26 {
		var u uuid.UUID
		var acc uint64
		bits, n := 0, 0
		for i := range len(rest) {
			v := strings.IndexByte(crockford, rest[i])
			if v < 0 || i == 0 && v > 7 {
				return ID[R]{}, fmt.Errorf("not a %s id: %q", r.IDPrefix(), s)
			}
			width := 5
			if i == 0 {
				width = 3 // 26 × 5 = 130 bits for 128: the first carries three
			}
			acc, bits = acc<<width|uint64(v), bits+width
			for bits >= 8 {
				bits -= 8
				u[n] = byte(acc >> bits)
				n++
			}
		}
		return ID[R](u), nil
	}
	if u, err := uuid.Parse(s); err == nil && len(s) == 36 {
		return ID[R](u), nil
	}
	return ID[R]{}, fmt.Errorf("not a %s id: %q", r.IDPrefix(), s)
}

// String is the printed form, for instance inst_01k3zq….
func (id ID[R]) String() string {
	var r R
	out := make([]byte, 0, 32)
	out = append(out, r.IDPrefix()...)
	out = append(out, '_')
	acc, bits := uint64(0), 2 // two leading zero bits make 130
	for _, b := range id {
		acc, bits = acc<<8|uint64(b), bits+8
		for bits >= 5 {
			bits -= 5
			out = append(out, crockford[acc>>bits&31])
		}
	}
	return string(out)
}

// UUID gives the bare identifier.
func (id ID[R]) UUID() uuid.UUID { return uuid.UUID(id) }

// IsZero reports an id that was never set.
func (id ID[R]) IsZero() bool { return id == ID[R]{} }

// MarshalText writes the printed form.
func (id ID[R]) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads what ParseID reads.
func (id *ID[R]) UnmarshalText(b []byte) error {
	v, err := ParseID[R](string(b))
	*id = v
	return err
}

// Value stores the id in a uuid column; the zero id is NULL.
func (id ID[R]) Value() (driver.Value, error) {
	if id.IsZero() {
		return nil, nil
	}
	return uuid.UUID(id).String(), nil
}

// Scan reads a uuid column; NULL is the zero id.
func (id *ID[R]) Scan(src any) error {
	var u uuid.UUID
	if src == nil {
		*id = ID[R]{}
		return nil
	}
	if err := u.Scan(src); err != nil {
		return err
	}
	*id = ID[R](u)
	return nil
}
