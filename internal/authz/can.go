package authz

import (
	"slices"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// Can reports whether an actor may do an action on something that belongs to
// an organisation. orgID is the owner of the resource; it is zero for actions
// of scope self and platform, and ignored there. An action that is not in the
// table is refused to everyone.
func Can(actor cloud.Actor, action Action, orgID cloud.OrgID) bool {
	r, ok := byAction[action]
	if !ok || actor.UserID.IsZero() {
		return false
	}
	switch {
	case r.Scope == ScopeSelf:
		return true
	case actor.Operator && r.Operator:
		return true
	case r.Scope == ScopePlatform:
		return false
	}
	return !orgID.IsZero() && actor.OrgID == orgID && slices.Contains(r.Roles, actor.Role)
}

// ScopeOf is the scope of an action; ok is false when the table lacks it.
func ScopeOf(action Action) (s Scope, ok bool) {
	r, ok := byAction[action]
	return r.Scope, ok
}

// Rules lists the whole table, in its order.
func Rules() []Rule { return slices.Clone(rules) }

// Allowed lists what an actor may do in an organisation, for a console that
// explains what it disables.
func Allowed(actor cloud.Actor, orgID cloud.OrgID) []Action {
	var out []Action
	for _, r := range rules {
		if Can(actor, r.Action, orgID) {
			out = append(out, r.Action)
		}
	}
	return out
}
