package cloud

import "time"

// Org is a tenant: it owns projects, members and, later, the wallet.
type Org struct {
	ID          OrgID
	Name        string
	DisplayName string
	CreatedAt   time.Time
}

// Project isolates resources inside an organisation and carries the limits.
type Project struct {
	ID          ProjectID
	OrgID       OrgID
	Name        string
	DisplayName string
	CreatedAt   time.Time

	IdleStopSeconds *int // notebooks idle for so long are stopped; nil: never
	IdleWarnSeconds int  // before that
}

// OrgRole is what a member may do in one organisation; package authz holds the
// table.
type OrgRole string

const (
	RoleOwner   OrgRole = "owner"
	RoleAdmin   OrgRole = "admin"
	RoleMember  OrgRole = "member"
	RoleAuditor OrgRole = "auditor"
)

// User is a person who signs in.
type User struct {
	ID        UserID
	Email     string // lower-case
	Name      string
	Operator  bool // platform operator: sees the fleet, sets prices
	CreatedAt time.Time
	Disabled  bool
}

// Actor is who makes a request, in which organisation, and through what.
type Actor struct {
	UserID    UserID
	Email     string
	OrgID     OrgID
	Role      OrgRole // in OrgID
	Operator  bool
	TokenID   TokenID   // set when an API token was used
	SessionID SessionID // set when a browser session was used
	RequestID string
}

// Token is an API token; the secret is shown once and only its hash is kept.
type Token struct {
	ID         TokenID
	OrgID      OrgID
	UserID     UserID
	Name       string
	Hint       string // prefix and last four characters, to recognise it by
	CreatedAt  time.Time
	ExpiresAt  *time.Time
	RevokedAt  *time.Time
	LastUsedAt *time.Time
}

// Quota is one limit of a project. Amounts are in the resource's own unit.
type Quota struct {
	ProjectID ProjectID
	Resource  QuotaResource
	Limit     *int64 // nil: no limit
	Used      int64
}

// QuotaResource names what is limited; the unit is part of the name.
type QuotaResource string

const (
	QuotaInstances QuotaResource = "instances"
	QuotaVCPU      QuotaResource = "vcpu"
	QuotaMemoryMiB QuotaResource = "memory_mib"
	QuotaGPUMilli  QuotaResource = "gpu_milli" // thousandths of a GPU, a slice by its share of the memory slots
)

// QuotaResources is the order in which rows are locked, everywhere.
var QuotaResources = []QuotaResource{QuotaGPUMilli, QuotaInstances, QuotaMemoryMiB, QuotaVCPU}
