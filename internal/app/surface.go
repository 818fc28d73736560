package app

import (
	"context"
	"time"

	"github.com/tenon-cloud/tenon/internal/authn"
	"github.com/tenon-cloud/tenon/internal/authz"
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// surface lists every use-case in one place.
var _ surface = (*App)(nil)

type surface interface {
	// Sign-in (auth.go, session.go).
	Login(ctx context.Context, in LoginInput) (SessionGrant, error)
	Refresh(ctx context.Context, refreshToken, userAgent, address string) (SessionGrant, error)
	Logout(ctx context.Context, refreshToken string) error // unknown tokens are no error
	// Authenticate takes a bearer credential (access JWT or API token) and, for a
	// session, which organisation is meant (name or id; empty: the user's first).
	// Codes: token_malformed, token_expired, token_revoked, token_unknown.
	Authenticate(ctx context.Context, credential, orgRef string) (cloud.Actor, error)
	StillValid(ctx context.Context, who cloud.Actor) error // for long streams: session, token, membership
	Me(ctx context.Context, c Call) (Me, error)
	Reach(ctx context.Context, c Call, action authz.Action, at Place) error // may it be done there at all (reach.go)

	// Organisations, members, projects, quotas, tokens.
	OrgList(ctx context.Context, c Call, p Page) (List[cloud.Org], error)
	OrgGet(ctx context.Context, c Call, org string) (cloud.Org, error)
	OrgCreate(ctx context.Context, c Call, in OrgInput) (cloud.Org, error)
	MemberList(ctx context.Context, c Call, org string, p Page) (List[Member], error)
	MemberAdd(ctx context.Context, c Call, org string, in MemberInput) (Member, error)
	MemberRemove(ctx context.Context, c Call, org, member string) error
	PasswordChange(ctx context.Context, c Call, current, next string) error
	PasswordReset(ctx context.Context, c Call, user, next string) error
	ProjectList(ctx context.Context, c Call, p Page) (List[cloud.Project], error)
	ProjectGet(ctx context.Context, c Call, project string) (cloud.Project, error)
	ProjectCreate(ctx context.Context, c Call, in ProjectInput) (cloud.Project, error)
	ProjectUpdate(ctx context.Context, c Call, project string, in ProjectChange) (cloud.Project, error)
	QuotaList(ctx context.Context, c Call, project string) ([]cloud.Quota, error)
	QuotaSet(ctx context.Context, c Call, project string, limits map[cloud.QuotaResource]*int64) ([]cloud.Quota, error) // nil: no limit; absent: unchanged
	TokenList(ctx context.Context, c Call, p Page) (List[cloud.Token], error)
	TokenCreate(ctx context.Context, c Call, in TokenInput) (TokenSecret, error)
	TokenRevoke(ctx context.Context, c Call, token string) error

	// Offers.
	FlavorList(ctx context.Context, c Call) ([]FlavorOffer, error)
	FlavorCreate(ctx context.Context, c Call, in FlavorInput) (FlavorOffer, error)
	FlavorRetire(ctx context.Context, c Call, flavor string) error
	ImageList(ctx context.Context, c Call, p Page) (List[cloud.Image], error)
	ImageGet(ctx context.Context, c Call, image string) (cloud.Image, error)
	ImageCreate(ctx context.Context, c Call, in ImageInput) (cloud.Image, error)
	ImageDelete(ctx context.Context, c Call, image string) error

	CredentialList(ctx context.Context, c Call, project string, p Page) (List[cloud.RegistryCredential], error)
	CredentialCreate(ctx context.Context, c Call, project string, in CredentialInput) (CredentialMade, error)
	CredentialDelete(ctx context.Context, c Call, project, credential string) error

	// Instances.
	InstanceList(ctx context.Context, c Call, project string, f InstanceFilter, p Page) (List[InstanceDetail], error)
	InstanceGet(ctx context.Context, c Call, project, instance string) (InstanceDetail, error)
	InstanceCreate(ctx context.Context, c Call, project string, in InstanceInput) (cloud.Instance, error)
	WithPrice(ctx context.Context, c Call, i cloud.Instance) (InstanceDetail, error)
	InstanceDryRun(ctx context.Context, c Call, project string, in InstanceInput) (DryRun, error)
	InstanceStart(ctx context.Context, c Call, project, instance string, in StartInput, ifMatch int64) (cloud.Instance, error) // ifMatch 0: not asked for
	InstanceStop(ctx context.Context, c Call, project, instance string, in StopInput, ifMatch int64) (cloud.Instance, error)
	InstanceUpdate(ctx context.Context, c Call, project, instance string, in InstanceChange, ifMatch int64) (cloud.Instance, error)
	InstanceRestart(ctx context.Context, c Call, project, instance string, ifMatch int64) (cloud.Instance, error)
	InstanceDelete(ctx context.Context, c Call, project, instance string, ifMatch int64) (cloud.Instance, error)
	// InstanceFor authorises one action (logs, metrics, exec) on an instance and
	// tells where it runs; not placed is Conflict "not_running" when placed is true.
	InstanceFor(ctx context.Context, c Call, action authz.Action, project, instance string, placed bool) (cloud.Instance, error)
	InstanceEvents(ctx context.Context, c Call, project, instance string, p Page) (List[cloud.Event], error)
	TicketCreate(ctx context.Context, c Call, project, instance, opens string, port int) (ExecTicket, error)
	TicketUse(ctx context.Context, ticket, opens string) (authn.Ticket, error) // once, within 30 s
	// A web server inside an instance, on a host of its own (open.go).
	Open(ctx context.Context, c Call, project, instance string, port int) (Opening, error)
	VisitBegin(ctx context.Context, ticket string, instance cloud.InstanceID, port int) (pass string, until time.Time, err error)
	VisitGoesOn(ctx context.Context, pass string, instance cloud.InstanceID, port int) (Visit, error)

	// Usage and the change stream.
	Usage(ctx context.Context, c Call, project string, q UsageQuery) (UsageReport, error)
	EventStream(ctx context.Context, c Call, project, lastEventID string) (*EventStream, error)

	// The fleet, for operators.
	NodeList(ctx context.Context, c Call, p Page) (List[cloud.Node], error)
	NodeGet(ctx context.Context, c Call, node string) (cloud.Node, error) // with its GPUs and their claims
	NodeDrain(ctx context.Context, c Call, node string) (cloud.Node, error)
	NodeUndrain(ctx context.Context, c Call, node string) (cloud.Node, error)
	NodeStays(ctx context.Context, c Call, node string) ([]cloud.Stay, error)
	NodeFence(ctx context.Context, c Call, node string) (cloud.Node, error)
	NodeForget(ctx context.Context, c Call, node string) error
	OrphanRemove(ctx context.Context, c Call, node, orphan string) error
	JoinTokenCreate(ctx context.Context, c Call, in JoinTokenInput) (JoinToken, error)
	GPUList(ctx context.Context, c Call, f GPUFilter, p Page) (List[cloud.GPU], error) // with claims
	GPUGet(ctx context.Context, c Call, gpu string) (cloud.GPU, error)                 // by id, uuid or PCI address
	CardSet(ctx context.Context, c Call, gpu string, in CardInput) (cloud.GPU, error)
	CardsSet(ctx context.Context, c Call, node string, in []NamedCardInput, dryRun bool) ([]CardResult, error) // each by itself
	CardRecover(ctx context.Context, c Call, gpu string) (cloud.GPU, error)
	IncidentList(ctx context.Context, c Call, gpu string) ([]cloud.Incident, error)           // newest first
	CardHistory(ctx context.Context, c Call, gpu string, p Page) (List[cloud.GPUStay], error) // newest first; also of one that is forgotten
	CardFault(ctx context.Context, c Call, gpu string, xid int) (cloud.GPU, error)            // simulated ones alone
	CardForget(ctx context.Context, c Call, gpu string) error
	PoolList(ctx context.Context, c Call) ([]cloud.Pool, error)
	Capacity(ctx context.Context, c Call) (Capacity, error)
	PriceList(ctx context.Context, c Call) ([]Price, error)
	PriceCreate(ctx context.Context, c Call, in PriceInput) (Price, error)
	AlarmList(ctx context.Context, c Call, open bool, p Page) (List[cloud.Alarm], error)
	AlarmAcknowledge(ctx context.Context, c Call, alarm string) (cloud.Alarm, error)
	ReplicaList(ctx context.Context, c Call) ([]Replica, error)

	// The registry: any user name, a Tenon token as the password.
	RegistryAuthorise(ctx context.Context, token, repository string, push bool) error

	// The node door. The node id comes from its certificate alone.
	NodeEnroll(ctx context.Context, in nodewire.EnrollRequest) (nodewire.EnrollResponse, error)
	NodeRenew(ctx context.Context, id cloud.NodeID, in nodewire.RenewRequest) (nodewire.EnrollResponse, error)
	NodeCertificateValid(ctx context.Context, id cloud.NodeID, serial string) error // serial in lower-case hex
	NodeReport(ctx context.Context, id cloud.NodeID, r nodewire.Report) (nodewire.ReportAnswer, error)
	NodeAssignment(ctx context.Context, id cloud.NodeID) (nodewire.Assignment, error)
	NodeAck(ctx context.Context, id cloud.NodeID, held nodewire.Version) error
	NodeTried(ctx context.Context, id cloud.NodeID) error // an assignment was sent and not answered
	// NodeCertificateAdopt takes what was issued after the backup that the cloud was
	// restored from; another unknown certificate is refused.
	NodeCertificateAdopt(ctx context.Context, id cloud.NodeID, serial string, issued, notAfter time.Time) error
	NodeSecrets(ctx context.Context, id cloud.NodeID, instance string) (nodewire.Secrets, error)
	NodeMayPull(ctx context.Context, id cloud.NodeID, repository string) error

	// First boot and each start.
	Setup(ctx context.Context, in SetupInput) (SetupResult, error)
	SetupToken(ctx context.Context, email, name string, validFor time.Duration) (string, error)
}
