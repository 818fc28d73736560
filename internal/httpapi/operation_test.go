package httpapi

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-chi/chi/v5"

	"github.com/tenon-cloud/tenon/internal/authz"
)

// notHere are actions that are asked for elsewhere than at an operation of
// their own.
var notHere = map[authz.Action]string{
	authz.SessionDelete:   "the operation of that id needs no token: the cookie is the credential",
	authz.TokenManage:     "a wider right of token.list and token.delete",
	authz.ImagePublish:    "image.create with offered",
	authz.ImageUnpublish:  "image.delete of an offered one",
	authz.RegistryPull:    "the registry's own protocol",
	authz.RegistryPush:    "the registry's own protocol",
	authz.RegistryPublish: "the registry's own protocol",
}

// TestEveryRouteIsAnOperationOrPublic walks the router: a route that nobody has
// to be allowed to use must say why.
func TestEveryRouteIsAnOperationOrPublic(t *testing.T) {
	t.Parallel()
	s, err := build(Config{Registry: http.NotFoundHandler()})
	if err != nil {
		t.Fatal(err)
	}
	declared := map[string]operation{}
	for _, o := range s.operations {
		declared[o.method+" "+o.path] = o
	}
	err = chi.Walk(s.mux, func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		o, isOperation := declared[method+" "+route]
		why, isPublic := s.publics[method+" "+route]
		if !isPublic {
			why, isPublic = s.publics["* "+route]
		}
		switch {
		case isOperation && o.public != "" && o.why == "":
			t.Errorf("%s %s is public without a reason", method, route)
		case isOperation && o.public == "":
			if _, ok := authz.ScopeOf(o.action); !ok {
				t.Errorf("%s %s has the permission %q, which is in no table", method, route, o.action)
			}
		case !isOperation && !isPublic:
			t.Errorf("%s %s is neither an operation nor on the public list", method, route)
		case isPublic && why == "":
			t.Errorf("%s %s is public without a reason", method, route)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestEveryActionHasItsOperation compares the table of rights with the table of
// operations, both ways.
func TestEveryActionHasItsOperation(t *testing.T) {
	t.Parallel()
	s, err := build(Config{})
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]int{}
	for _, o := range s.operations {
		ids[o.id()]++
	}
	for _, rule := range authz.Rules() {
		if _, elsewhere := notHere[rule.Action]; ids[string(rule.Action)] == 0 && !elsewhere {
			t.Errorf("no operation asks for %s", rule.Action)
		}
	}
	for id, n := range ids {
		if n > 1 {
			t.Errorf("%d operations are called %s", n, id)
		}
	}
	for _, o := range s.operations {
		if o.summary == "" || o.tag == "" || strings.HasSuffix(o.summary, ".") {
			t.Errorf("%s has no proper summary: %q", o.id(), o.summary)
		}
		if !slices.ContainsFunc(humaConfig().Tags, func(tag *huma.Tag) bool { return tag.Name == o.tag }) {
			t.Errorf("%s has the unknown tag %q", o.id(), o.tag)
		}
	}
}
