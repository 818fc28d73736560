package app

import (
	"time"

	"github.com/tenon-cloud/tenon/internal/authz"
	"github.com/tenon-cloud/tenon/internal/cloud"
)

// LoginInput is a sign-in with a password.
type LoginInput struct {
	Email, Password    string
	UserAgent, Address string
}

// SessionGrant is what a sign-in or a refresh gives.
type SessionGrant struct {
	AccessToken      string
	AccessExpiresAt  time.Time
	RefreshToken     string // for the cookie alone
	RefreshExpiresAt time.Time
	SessionID        cloud.SessionID
	User             cloud.User
}

// Membership is an organisation that a user belongs to.
type Membership struct {
	OrgID   cloud.OrgID
	OrgName string
	Role    cloud.OrgRole
}

// Me is who is signed in and what they may do in the current organisation.
type Me struct {
	User        cloud.User
	OrgID       cloud.OrgID
	OrgName     string
	Role        cloud.OrgRole
	Memberships []Membership
	Actions     []authz.Action
}

// OrgInput makes an organisation.
type OrgInput struct{ Name, DisplayName string }

// Member is a user in an organisation.
type Member struct {
	OrgID     cloud.OrgID
	UserID    cloud.UserID
	Email     string
	Name      string
	Role      cloud.OrgRole
	CreatedAt time.Time
}

// MemberInput adds a user, who is made with the password when new.
type MemberInput struct {
	Email    string
	Name     string
	Password string // required for a new user; must be empty for a known one
	Role     cloud.OrgRole
}

// ProjectInput makes a project.
type ProjectInput struct{ Name, DisplayName string }

// TokenInput makes an API token.
type TokenInput struct {
	Name      string
	ExpiresAt *time.Time // nil: 90 days from now
}

// TokenSecret is a token with its secret, which is shown this once.
type TokenSecret struct {
	Token  cloud.Token
	Secret string
}

// FlavorOffer is a flavor with what it costs and how many fit now.
type FlavorOffer struct {
	cloud.Flavor
	PricePerHourMicros int64
	Currency           string
	Priced             bool // false: part of it has no price yet
	FreeNow            int  // in pools that are not simulated, of the kind that fits most often
	FreeSimulated      int
	Served             bool // a node of such a pool could take it, were it empty
	ServedSimulated    bool
	Kinds              []KindOffer // of instances that can have it
	ProfileName        string      // the slice's display name: 1g.10gb
	ModelName          string      // H100 80 GB
	GPUMemoryMiB       int64       // usable, of one card or slice, by its driver; 0: none has told
	GPUSMs             int         // streaming multiprocessors of a slice, likewise
}

// KindOffer is a flavor's offer to one kind of instance: a card that a container can
// have is not always one for a VM, nor the other way about.
type KindOffer struct {
	Kind            cloud.InstanceKind
	FreeNow         int
	FreeSimulated   int
	Served          bool
	ServedSimulated bool
}

// FlavorInput makes a flavor.
type FlavorInput struct {
	Name        string
	Description string
	Shape       cloud.Shape // GPUProfile in any spelling of the model
}

// ImageInput adds an image that is in a registry already.
type ImageInput struct {
	Name        string
	Kind        cloud.InstanceKind // empty: container
	Ref         string             // repository[:tag][@digest]; without a host it is in the embedded registry
	Description string
	Offered     bool   // to every organisation: operators only
	Project     string // whose credential for the registry it is read and pulled with; empty: none
}

// InstanceInput asks for an instance.
type InstanceInput struct {
	Name    string
	Kind    cloud.InstanceKind // empty: the image's
	Image   string
	Flavor  string
	Need    *NeedInput // instead of a flavor: the cheapest that meets it
	Pool    string     // empty: default. A simulated pool must be named
	Command []string
	Env     map[string]string
	Labels  map[string]string
	NoWait  bool // refuse with NoCapacity instead of queueing

	SSHKeys    []string           // in OpenSSH's form, authorised at the first boot; VMs
	UserData   string             // for cloud-init; VMs. Kept sealed, never given back
	OnStop     cloud.StopPolicy   // empty: release; hold is for VMs
	OnNodeLoss cloud.LossPolicy   // empty: wait
	OnReboot   cloud.RebootPolicy // empty: by its kind
}

// StopInput says what a stop does with the place.
type StopInput struct {
	GPU cloud.StopPolicy // empty: what the instance's own policy says
}

// StartInput says how to start.
type StartInput struct {
	WithoutGPU bool // for this run: to reach the data
}

// InstanceChange changes what is given.
type InstanceChange struct {
	Flavor     *string // only while stopped and not held
	OnStop     *cloud.StopPolicy
	OnNodeLoss *cloud.LossPolicy
	OnReboot   *cloud.RebootPolicy
}

// InstanceFilter narrows a list; zero fields do not.
type InstanceFilter struct {
	State cloud.InstanceState
	Name  string // exactly
	All   bool   // deleted ones too
}

// Reason says why something waits or can't be placed, with how many nodes or
// cards it holds for.
type Reason struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Count   int    `json:"count"`
}

// InstanceDetail is an instance with what only its own page shows.
type InstanceDetail struct {
	cloud.Instance
	PricePerHourMicros int64 // while it runs, with what it keeps
	PriceNowMicros     int64 // in its present state
	Currency           string
	Priced             bool
	Simulated          bool     // its node or pool is
	Reasons            []Reason // of its wait
	QueuePlace         int      // in its pool's queue, from 1; 0: not queued, or not asked for
	Claims             []HeldDevice
}

// HeldDevice is a card or slice that an instance holds.
type HeldDevice struct {
	GPUID       cloud.GPUID
	GPUUUID     string
	Model       string
	ModelName   string
	Mode        cloud.GPUMode
	Profile     string
	ProfileName string
	Slots       cloud.Slots
	Simulated   bool
}

// DryRun answers what a create would do.
type DryRun struct {
	PricePerHourMicros int64
	Currency           string
	Priced             bool
	StartsNow          bool
	FreeNow            int       // how many of this flavor fit in the pool now
	Ahead              int       // instances that wait already
	Reasons            []Reason  // why it would wait
	Instead            []Instead // flavors that would start now
	NeverFits          bool      // no node of the pool could take it, were it empty
	Flavor             string    // that was asked for, or meets what was
	Pool               string
	Simulated          bool
}

// ExecTicket opens one terminal, once, soon.
type ExecTicket struct {
	Ticket    string
	ExpiresAt time.Time
}

// UsageQuery asks for [From, To).
type UsageQuery struct {
	From, To time.Time // zero: the last 30 days
	GroupBy  string    // day, instance, sku; empty: day
}

// UsageLine is usage under one group and price.
type UsageLine struct {
	Day          string // with GroupBy day: 2026-11-30, UTC
	InstanceID   cloud.InstanceID
	InstanceName string
	SKU          string
	Name         string  // of the SKU, for people
	Quantity     float64 // in Unit
	Unit         string  // GPU hours, vCPU hours, GiB hours
	CostMicros   int64
	Simulated    bool // part of it was
}

// UsageReport is the lines with their sum.
type UsageReport struct {
	From, To    time.Time
	GroupBy     string
	Currency    string
	Lines       []UsageLine
	TotalMicros int64
	Running     int   // segments that are still open
	RateMicros  int64 // what they cost per hour now
	Unpriced    []string
}

// JoinTokenInput makes a token with which one node enrols.
type JoinTokenInput struct {
	Pool     string
	ValidFor time.Duration // 0: one hour
}

// JoinToken is shown once.
type JoinToken struct {
	Secret    string
	Pool      string
	ExpiresAt time.Time
}

// GPUFilter narrows a list; zero fields do not.
type GPUFilter struct {
	Node  string
	Model string
	State cloud.GPUState
}

// Capacity is one truth about how many cards there are (case C25).
type Capacity struct {
	Total  CapacityLine
	Models []CapacityLine // by model and whether simulated
}

// CapacityLine counts cards: a card in use by anyone is used; free is healthy
// and held by nobody.
type CapacityLine struct {
	Model     string
	ModelName string
	Simulated bool
	Total     int
	Healthy   int
	Used      int
	Free      int
	// Of the cards that are cut, in memory slots.
	SlotsTotal int
	SlotsUsed  int
}

// Price is one version of a price.
type Price struct {
	ID            cloud.PriceID
	SKU           string
	Name          string
	Unit          string
	Currency      string
	MicrosPerHour int64
	StartsAt      time.Time
	Current       bool
}

// PriceInput makes a new version, which must start in the future.
type PriceInput struct {
	SKU           string
	Currency      string // empty: USD
	MicrosPerHour int64
	StartsAt      time.Time
}

// SetupInput is the first boot.
type SetupInput struct {
	AdminEmail    string
	AdminName     string
	AdminPassword string // used only when the administrator is made now
}

// SetupResult says what Setup made.
type SetupResult struct {
	AdminCreated bool
	OrgID        cloud.OrgID
	ProjectID    cloud.ProjectID
	UserID       cloud.UserID
}
