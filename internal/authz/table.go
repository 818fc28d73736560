package authz

import "github.com/tenon-cloud/tenon/internal/cloud"

// Roles lists the roles of an organisation, the strongest first.
var Roles = []cloud.OrgRole{cloud.RoleOwner, cloud.RoleAdmin, cloud.RoleMember, cloud.RoleAuditor}

// Rule is one row: who may do an action inside the organisation that it is
// about, and whether a platform operator may do it in any organisation.
type Rule struct {
	Action   Action
	Scope    Scope
	Roles    []cloud.OrgRole
	Operator bool
}

var (
	everyone = Roles
	workers  = Roles[:3] // whoever runs things
	admins   = Roles[:2]
	owners   = Roles[:1]
	nobody   []cloud.OrgRole
)

// Operators manage organisations, members and limits; what a tenant runs,
// writes and logs is not theirs to see or touch.
var rules = []Rule{
	{MeRead, ScopeSelf, everyone, true},
	{SessionDelete, ScopeSelf, everyone, true},
	{PasswordUpdate, ScopeSelf, everyone, true},
	{PasswordReset, ScopePlatform, nobody, true},
	{OrganisationList, ScopeSelf, everyone, true},

	{OrganisationCreate, ScopePlatform, nobody, true},
	{OrganisationRead, ScopeOrg, everyone, true},
	{MemberList, ScopeOrg, everyone, true},
	// Without an invitation that the person accepts, an owner could open an account
	// in somebody else's name or find out who has one.
	{MemberCreate, ScopePlatform, nobody, true},
	{MemberDelete, ScopeOrg, owners, true},

	{ProjectList, ScopeOrg, everyone, true},
	{ProjectRead, ScopeProject, everyone, true},
	{ProjectCreate, ScopeOrg, admins, false},
	{ProjectUpdate, ScopeProject, admins, false},
	{ProjectEvents, ScopeProject, everyone, false},
	{QuotaRead, ScopeProject, everyone, true},
	{QuotaUpdate, ScopePlatform, nobody, true}, // a tenant that sets its own limits has none
	{UsageRead, ScopeProject, everyone, true},

	{TokenList, ScopeOrg, everyone, false},
	{TokenCreate, ScopeOrg, everyone, false}, // a token can do what its owner can, no more
	{TokenDelete, ScopeOrg, everyone, false},
	{TokenManage, ScopeOrg, admins, false},

	{FlavorList, ScopeOrg, everyone, true},
	{FlavorCreate, ScopePlatform, nobody, true},
	{FlavorDelete, ScopePlatform, nobody, true},

	{ImageList, ScopeOrg, everyone, false},
	{ImageRead, ScopeOrg, everyone, false},
	{ImageCreate, ScopeOrg, workers, false},
	{ImageDelete, ScopeOrg, workers, false},
	{ImagePublish, ScopePlatform, nobody, true},
	{ImageUnpublish, ScopePlatform, nobody, true},
	{RegistryPull, ScopeOrg, workers, false},
	{RegistryPush, ScopeOrg, workers, false},
	{RegistryPublish, ScopePlatform, nobody, true},

	{InstanceList, ScopeProject, everyone, false},
	{InstanceRead, ScopeProject, everyone, false},
	{InstanceCreate, ScopeProject, workers, false},
	{InstanceDelete, ScopeProject, workers, false},
	{InstanceStart, ScopeProject, workers, false},
	{InstanceStop, ScopeProject, workers, false},
	{InstanceRestart, ScopeProject, workers, false},
	{InstanceEvents, ScopeProject, everyone, false},
	{InstanceLogs, ScopeProject, workers, false}, // logs carry data, which an auditor of money and actions needs not
	{InstanceMetrics, ScopeProject, everyone, false},
	{InstanceExec, ScopeProject, workers, false},
	{InstanceExecTicket, ScopeProject, workers, false},
	{InstanceDryRun, ScopeProject, everyone, false},
	{InstanceUpdate, ScopeProject, workers, false},
	{InstanceConsole, ScopeProject, workers, false},
	{InstanceScreen, ScopeProject, workers, false},
	{InstancePort, ScopeProject, workers, false},
	{InstanceOpen, ScopeProject, workers, false},

	{JobList, ScopeProject, everyone, false},
	{JobRead, ScopeProject, everyone, false},
	{JobCreate, ScopeProject, workers, false},
	{JobCancel, ScopeProject, workers, false},
	{JobDelete, ScopeProject, workers, false},
	{JobEvents, ScopeProject, everyone, false},

	{CredentialList, ScopeProject, workers, false},
	{CredentialCreate, ScopeProject, admins, false}, // a password that every image of the project is pulled with
	{CredentialDelete, ScopeProject, admins, false},

	{NodeList, ScopePlatform, nobody, true},
	{NodeRead, ScopePlatform, nobody, true},
	{NodeDrain, ScopePlatform, nobody, true},
	{NodeUndrain, ScopePlatform, nobody, true},
	{NodeStays, ScopePlatform, nobody, true},
	{NodeFence, ScopePlatform, nobody, true},
	{NodeForget, ScopePlatform, nobody, true},
	{NodeRemoveOrphan, ScopePlatform, nobody, true},
	{ReplicaList, ScopePlatform, nobody, true},
	{NodeJoinTokenCreate, ScopePlatform, nobody, true},
	{GPUList, ScopePlatform, nobody, true},
	{GPURead, ScopePlatform, nobody, true},
	{GPUMetrics, ScopePlatform, nobody, true},
	{GPUUpdate, ScopePlatform, nobody, true},
	{GPURecover, ScopePlatform, nobody, true},
	{GPUIncidents, ScopePlatform, nobody, true},
	{GPUHistory, ScopePlatform, nobody, true},
	{GPUFault, ScopePlatform, nobody, true},
	{GPUForget, ScopePlatform, nobody, true},
	{NodeGPUsUpdate, ScopePlatform, nobody, true},
	{PoolList, ScopePlatform, nobody, true},
	{PriceList, ScopeOrg, everyone, true},
	{PriceCreate, ScopePlatform, nobody, true},
	{AlarmList, ScopePlatform, nobody, true},
	{AlarmAcknowledge, ScopePlatform, nobody, true},
	{CapacityRead, ScopePlatform, nobody, true},
}

var byAction = index(rules)

func index(rules []Rule) map[Action]Rule {
	m := make(map[Action]Rule, len(rules))
	for _, r := range rules {
		m[r.Action] = r
	}
	return m
}
