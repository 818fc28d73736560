package api

import "time"

// Login signs a person in.
type Login struct {
	Email    string `json:"email" minLength:"3" maxLength:"254"`
	Password string `json:"password" minLength:"1" maxLength:"1024"`
}

// Session is the short-lived half of a sign-in. The long-lived half is a cookie
// that scripts can't read.
type Session struct {
	AccessToken string    `json:"access_token"`
	TokenType   string    `json:"token_type" enum:"Bearer"`
	ExpiresAt   time.Time `json:"expires_at"`
}

// Me is who asks, in which organisation.
type Me struct {
	User          User             `json:"user"`
	Organisation  MyOrganisation   `json:"organisation" doc:"That the request is about"`
	Organisations []MyOrganisation `json:"organisations" doc:"All that you are a member of"`
	Actions       []string         `json:"actions" doc:"What you may do there: instance.create, node.drain"`
	TokenID       string           `json:"token_id,omitempty" doc:"Of the API token in use"`
	Version       string           `json:"version" doc:"Of the control plane"`
	CloudID       string           `json:"cloud_id"`
}

// MyOrganisation is an organisation that one belongs to.
type MyOrganisation struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Role string `json:"role,omitempty" doc:"Yours in it; absent for an operator who looks in from outside"`
}

// User is a person.
type User struct {
	ID       string `json:"id"`
	Email    string `json:"email"`
	Name     string `json:"name"`
	Operator bool   `json:"operator" doc:"Platform operator: sees the fleet, sets prices"`
}

// Organisation is a tenant.
type Organisation struct {
	ID          string    `json:"id"`
	Name        string    `json:"name"`
	DisplayName string    `json:"display_name"`
	CreatedAt   time.Time `json:"created_at"`
}

// OrganisationCreate makes a tenant; operators only.
type OrganisationCreate struct {
	Name        string `json:"name" minLength:"1" maxLength:"63" pattern:"^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$" patternDescription:"lower-case letters, digits and hyphens, beginning with a letter and not ending with a hyphen"`
	DisplayName string `json:"display_name,omitempty" maxLength:"200"`
}

// Member is a person in an organisation.
type Member struct {
	UserID    string    `json:"user_id"`
	Email     string    `json:"email"`
	Name      string    `json:"name"`
	Role      string    `json:"role" enum:"owner,admin,member,auditor"`
	CreatedAt time.Time `json:"created_at"`
}

// MemberCreate adds a person, and makes the account when the address is new;
// operators only.
type MemberCreate struct {
	Email    string `json:"email" minLength:"3" maxLength:"254" pattern:"^[^@\\s]+@[^@\\s]+$" patternDescription:"an e-mail address"`
	Name     string `json:"name,omitempty" maxLength:"200"`
	Role     string `json:"role" enum:"owner,admin,member,auditor"`
	Password string `json:"password,omitempty" minLength:"12" maxLength:"1024" doc:"For a new account"`
}

// PasswordChange sets one's own password.
type PasswordChange struct {
	CurrentPassword string `json:"current_password" minLength:"1" maxLength:"1024"`
	Password        string `json:"password" minLength:"12" maxLength:"512"`
}

// PasswordReset sets somebody's password; operators only.
type PasswordReset struct {
	Password string `json:"password" minLength:"12" maxLength:"512"`
}

// Project isolates resources inside an organisation and carries the limits.
type Project struct {
	ID             string    `json:"id"`
	Name           string    `json:"name"`
	DisplayName    string    `json:"display_name"`
	OrganisationID string    `json:"organisation_id"`
	CreatedAt      time.Time `json:"created_at"`

	IdleStopSeconds *int `json:"idle_stop_seconds" nullable:"true" doc:"Notebooks that are idle for so long are stopped; null: never"`
	IdleWarnSeconds int  `json:"idle_warn_seconds" doc:"How long before that they are warned"`
}

// ProjectCreate makes a project.
type ProjectCreate struct {
	Name        string `json:"name" minLength:"1" maxLength:"63" pattern:"^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$" patternDescription:"lower-case letters, digits and hyphens, beginning with a letter and not ending with a hyphen"`
	DisplayName string `json:"display_name,omitempty" maxLength:"200"`
}

// ProjectUpdate changes a project; its name stays, and so does what is absent.
type ProjectUpdate struct {
	DisplayName     *string `json:"display_name,omitempty" maxLength:"200"`
	IdleStopSeconds *int    `json:"idle_stop_seconds,omitempty" nullable:"true" minimum:"0" maximum:"2592000" doc:"Stop notebooks that are idle for so long, at least 60; null or 0: never"`
	IdleWarnSeconds *int    `json:"idle_warn_seconds,omitempty" minimum:"0" maximum:"86400" doc:"Warn so long before"`
}

// Quota is one limit of a project.
type Quota struct {
	Resource string `json:"resource" enum:"gpu_milli,instances,memory_mib,vcpu" doc:"gpu_milli is thousandths of a GPU; a slice counts by its share of the memory slots"`
	Limit    *int64 `json:"limit" nullable:"true" doc:"null: no limit"`
	Used     int64  `json:"used"`
}

// QuotaLimit sets one limit.
type QuotaLimit struct {
	Resource string `json:"resource" enum:"gpu_milli,instances,memory_mib,vcpu"`
	Limit    *int64 `json:"limit" nullable:"true" minimum:"0" maximum:"1000000000000" doc:"null: no limit"`
}

// QuotaUpdate sets the limits that it names and leaves the others.
type QuotaUpdate struct {
	Items []QuotaLimit `json:"items" minItems:"1" maxItems:"4"`
}

// Token is an API token; the secret is shown once.
type Token struct {
	ID         string     `json:"id"`
	Name       string     `json:"name"`
	Hint       string     `json:"hint" doc:"To recognise it by"`
	CreatedAt  time.Time  `json:"created_at"`
	ExpiresAt  *time.Time `json:"expires_at,omitempty"`
	RevokedAt  *time.Time `json:"revoked_at,omitempty"`
	LastUsedAt *time.Time `json:"last_used_at,omitempty"`
}

// TokenCreate asks for an API token in the current organisation.
type TokenCreate struct {
	Name          string `json:"name" minLength:"1" maxLength:"63" pattern:"^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$" patternDescription:"lower-case letters, digits and hyphens, beginning with a letter and not ending with a hyphen"`
	ExpiresInDays int    `json:"expires_in_days,omitempty" minimum:"1" maximum:"366" default:"90"`
}

// TokenCreated carries the secret, this once.
type TokenCreated struct {
	Token
	Secret string `json:"secret" doc:"Shown once; only its hash is kept"`
}

// Usage is what a project used in [from, to), and what it cost.
type Usage struct {
	From              time.Time   `json:"from"`
	To                time.Time   `json:"to"`
	GroupBy           string      `json:"group_by" enum:"day,instance,sku"`
	Currency          string      `json:"currency"`
	TotalMicros       int64       `json:"total_micros" doc:"Of the unrounded sum; lines may differ from it by their own rounding"`
	Running           int         `json:"running" doc:"How many stretches are still growing"`
	RatePerHourMicros int64       `json:"rate_per_hour_micros" doc:"What those cost an hour now"`
	Unpriced          []string    `json:"unpriced,omitempty" doc:"SKUs without a price for a part of the time, which is not charged"`
	Items             []UsageLine `json:"items"`
}

// UsageLine is one SKU of one group.
type UsageLine struct {
	Day        string  `json:"day,omitempty" format:"date" doc:"With group_by=day; UTC"`
	InstanceID string  `json:"instance_id,omitempty" doc:"With group_by=instance"`
	Instance   string  `json:"instance,omitempty"`
	SKU        string  `json:"sku"`
	Name       string  `json:"name" doc:"Of the SKU, for people"`
	Quantity   float64 `json:"quantity" doc:"In its unit"`
	Unit       string  `json:"unit" example:"GPU hours"`
	CostMicros int64   `json:"cost_micros"`
	Simulated  bool    `json:"simulated" doc:"Some of it was of simulated GPUs or guests"`
}

// RegistryCredential opens a registry that is not the embedded one, for the
// images of a project. Its password is kept sealed and never shown.
type RegistryCredential struct {
	ID        string    `json:"id"`
	Host      string    `json:"host" example:"ghcr.io"`
	Username  string    `json:"username"`
	CreatedAt time.Time `json:"created_at" doc:"When it was made, or replaced last"`
	Warning   string    `json:"warning,omitempty" doc:"When it is made: its registry could not be asked whether it takes the password"`
}

// RegistryCredentialCreate adds one, or replaces the host's.
type RegistryCredentialCreate struct {
	Host     string `json:"host" minLength:"1" maxLength:"255"`
	Username string `json:"username" maxLength:"255"`
	Password string `json:"password" minLength:"1" maxLength:"4096"`
}
