package authz

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var (
	mine    = cloud.OrgID{1}
	foreign = cloud.OrgID{2}
)

func actor(role cloud.OrgRole, operator bool) cloud.Actor {
	return cloud.Actor{UserID: cloud.UserID{1}, OrgID: mine, Role: role, Operator: operator}
}

// The matrix is asked of Can itself, not read from the table.
func TestPermissionMatrix(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	fmt.Fprintf(&b, "%-24s %-9s", "action", "scope")
	for _, r := range Roles {
		fmt.Fprintf(&b, " %-8s", r)
	}
	fmt.Fprintf(&b, " %-18s\n", "operator elsewhere")
	mark := func(ok bool) string {
		if ok {
			return "yes"
		}
		return "-"
	}
	for _, rule := range Rules() {
		fmt.Fprintf(&b, "%-24s %-9s", rule.Action, rule.Scope)
		for _, r := range Roles {
			fmt.Fprintf(&b, " %-8s", mark(Can(actor(r, false), rule.Action, mine)))
		}
		fmt.Fprintf(&b, " %s\n", mark(Can(actor("", true), rule.Action, foreign)))
	}
	path := filepath.Join("testdata", "permissions.golden")
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("the permission matrix changed; if that is meant, run with -update and review:\n%s", diff)
	}
}

func TestForeignOrganisationIsNeverAllowed(t *testing.T) {
	t.Parallel()
	// What an operator may do inside a foreign organisation: its membership,
	// limits, price and bill, nothing that runs in it.
	admitted := []Action{OrganisationRead, MemberList, MemberDelete, ProjectList, ProjectRead, QuotaRead, UsageRead, FlavorList, PriceList}
	for _, r := range Rules() {
		for _, role := range append(slices.Clone(Roles), "", "root") {
			for _, org := range []cloud.OrgID{foreign, {}} {
				if Can(actor(role, false), r.Action, org) && r.Scope != ScopeSelf {
					t.Errorf("%q may %s in a foreign organisation", role, r.Action)
				}
			}
		}
		if Can(actor(cloud.RoleOwner, true), r.Action, foreign) && (r.Scope == ScopeOrg || r.Scope == ScopeProject) &&
			!slices.Contains(admitted, r.Action) {
			t.Errorf("an operator may %s in a foreign organisation", r.Action)
		}
	}
}

func TestNobodyWithoutAnIdentity(t *testing.T) {
	t.Parallel()
	for _, r := range Rules() {
		if Can(cloud.Actor{OrgID: mine, Role: cloud.RoleOwner, Operator: true}, r.Action, mine) {
			t.Errorf("no user may %s", r.Action)
		}
	}
	if Can(actor(cloud.RoleOwner, true), "instance.teleport", mine) {
		t.Error("an action outside the table is allowed")
	}
	if Can(cloud.Actor{UserID: cloud.UserID{1}, Role: cloud.RoleOwner}, InstanceList, cloud.OrgID{}) {
		t.Error("two absent organisations are taken for one")
	}
}

func TestRulesAreWellFormed(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^[a-z_]+\.[a-z_]+$`)
	seen := map[Action]bool{}
	for _, r := range Rules() {
		if seen[r.Action] || !form.MatchString(string(r.Action)) {
			t.Errorf("%s is doubled or misspelt", r.Action)
		}
		seen[r.Action] = true
		if r.Scope == ScopePlatform && (len(r.Roles) > 0 || !r.Operator) {
			t.Errorf("%s: platform actions are the operators' alone", r.Action)
		}
		// A stronger role can do what a weaker can; the auditor stands apart and only reads.
		for i := 1; i < 3; i++ {
			if slices.Contains(r.Roles, Roles[i]) && !slices.Contains(r.Roles, Roles[i-1]) {
				t.Errorf("%s: %s may and %s may not", r.Action, Roles[i], Roles[i-1])
			}
		}
	}
	got := Allowed(actor(cloud.RoleAuditor, false), mine)
	for _, a := range got {
		verb := string(a[strings.IndexByte(string(a), '.')+1:])
		if !slices.Contains([]string{"read", "list", "events", "metrics", "dry_run"}, verb) &&
			!slices.Contains([]Action{TokenCreate, TokenDelete, SessionDelete, PasswordUpdate}, a) {
			t.Errorf("an auditor may %s", a)
		}
	}
}
