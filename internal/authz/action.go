package authz

// Action is one thing that can be asked for: "<resource>.<verb>", one for each
// operation of the API.
type Action string

// Scope is what an action is about.
type Scope string

const (
	ScopeSelf     Scope = "self"     // whoever is signed in, about themselves
	ScopePlatform Scope = "platform" // the fleet and what all tenants share: operators only
	ScopeOrg      Scope = "org"
	ScopeProject  Scope = "project"
)

const (
	MeRead           Action = "me.read"
	SessionDelete    Action = "session.delete"
	PasswordUpdate   Action = "password.update"   // one's own
	PasswordReset    Action = "password.reset"    // anybody's
	OrganisationList Action = "organisation.list" // one's own; all, for an operator

	OrganisationCreate Action = "organisation.create"
	OrganisationRead   Action = "organisation.read"
	MemberList         Action = "member.list"
	MemberCreate       Action = "member.create" // and the account, when the address is new
	MemberDelete       Action = "member.delete"

	ProjectList   Action = "project.list"
	ProjectRead   Action = "project.read"
	ProjectCreate Action = "project.create"
	ProjectUpdate Action = "project.update"
	ProjectEvents Action = "project.events" // the stream of changes
	QuotaRead     Action = "quota.read"
	QuotaUpdate   Action = "quota.update"
	UsageRead     Action = "usage.read"

	TokenList   Action = "token.list"   // one's own
	TokenCreate Action = "token.create" // one's own
	TokenDelete Action = "token.delete" // one's own
	TokenManage Action = "token.manage" // see and revoke the other members'

	FlavorList   Action = "flavor.list"
	FlavorCreate Action = "flavor.create"
	FlavorDelete Action = "flavor.delete"

	ImageList       Action = "image.list"
	ImageRead       Action = "image.read"
	ImageCreate     Action = "image.create"
	ImageDelete     Action = "image.delete"
	ImagePublish    Action = "image.publish"   // offer one to every organisation
	ImageUnpublish  Action = "image.unpublish" // and take it back
	RegistryPull    Action = "registry.pull"
	RegistryPush    Action = "registry.push"
	RegistryPublish Action = "registry.publish" // push below tenon/

	InstanceList       Action = "instance.list"
	InstanceRead       Action = "instance.read"
	InstanceCreate     Action = "instance.create"
	InstanceDelete     Action = "instance.delete"
	InstanceStart      Action = "instance.start"
	InstanceStop       Action = "instance.stop"
	InstanceRestart    Action = "instance.restart"
	InstanceEvents     Action = "instance.events"
	InstanceLogs       Action = "instance.logs"
	InstanceMetrics    Action = "instance.metrics"
	InstanceExec       Action = "instance.exec"
	InstanceExecTicket Action = "instance.exec_ticket"
	InstanceDryRun     Action = "instance.dry_run"
	InstanceUpdate     Action = "instance.update"  // flavor while stopped, policies
	InstanceConsole    Action = "instance.console" // a VM's serial port
	InstanceScreen     Action = "instance.screen"  // and its screen
	InstancePort       Action = "instance.port"    // a stream to a port inside: SSH, forwarding
	InstanceOpen       Action = "instance.open"    // a port's own web address

	JobList   Action = "job.list"
	JobRead   Action = "job.read"
	JobCreate Action = "job.create"
	JobCancel Action = "job.cancel"
	JobDelete Action = "job.delete"
	JobEvents Action = "job.events"

	CredentialList   Action = "registry_credential.list"
	CredentialCreate Action = "registry_credential.create"
	CredentialDelete Action = "registry_credential.delete"

	NodeList            Action = "node.list"
	NodeRead            Action = "node.read"
	NodeDrain           Action = "node.drain"
	NodeUndrain         Action = "node.undrain"
	NodeStays           Action = "node.stays"         // what a drain leaves, and why
	NodeFence           Action = "node.fence"         // confirm that it is switched off
	NodeForget          Action = "node.forget"        // it will not come back
	NodeRemoveOrphan    Action = "node.remove_orphan" // let the node end what nobody assigned
	ReplicaList         Action = "replica.list"
	NodeJoinTokenCreate Action = "node_join_token.create"
	GPUList             Action = "gpu.list"
	GPURead             Action = "gpu.read"
	GPUMetrics          Action = "gpu.metrics"
	GPUUpdate           Action = "gpu.update"       // its mode and layout
	GPURecover          Action = "gpu.recover"      // have it checked, and offered again
	GPUIncidents        Action = "gpu.incidents"    // what went wrong with it
	GPUHistory          Action = "gpu.history"      // who held it
	GPUFault            Action = "gpu.fault"        // of a simulated one
	GPUForget           Action = "gpu.forget"       // it was pulled for good
	NodeGPUsUpdate      Action = "node.update_gpus" // modes and layouts of several
	PoolList            Action = "pool.list"
	PriceList           Action = "price.list"
	PriceCreate         Action = "price.create"
	AlarmList           Action = "alarm.list"
	AlarmAcknowledge    Action = "alarm.acknowledge"
	CapacityRead        Action = "capacity.read"
)
