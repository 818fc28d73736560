package cloudtest

import (
	"context"
	"time"

	"github.com/tenon-cloud/tenon/api"
)

// Tenant is an organisation with one person in it and one project.
type Tenant struct {
	*api.Client
	Org      string
	Project  string
	Email    string
	Password string
}

// Tenant makes an organisation with an owner and the project default, and a
// client with the owner's token.
func (c *Cloud) Tenant(name string) *Tenant {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if _, err := c.Admin.OrganisationCreate(ctx, api.OrganisationCreate{Name: name}); err != nil {
		c.t.Fatalf("cloudtest: %v", err)
	}
	tenant := c.Member(name, "owner@"+name+".test", "owner")
	if _, err := tenant.ProjectGet(ctx, "default"); err != nil {
		if _, err := tenant.ProjectCreate(ctx, api.ProjectCreate{Name: "default"}); err != nil {
			c.t.Fatalf("cloudtest: %v", err)
		}
	}
	return tenant
}

// Member adds a person to an organisation and gives a client with their token.
func (c *Cloud) Member(org, email, role string) *Tenant {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	const password = "a password for tests only"
	if _, err := c.Admin.MemberCreate(ctx, org, api.MemberCreate{Email: email, Role: role, Password: password}); err != nil {
		c.t.Fatalf("cloudtest: %v", err)
	}
	session, err := c.Client("").Login(ctx, email, password)
	if err != nil {
		c.t.Fatalf("cloudtest: %v", err)
	}
	person := c.Client(session.AccessToken)
	token, err := person.TokenCreate(ctx, api.TokenCreate{Name: "test", ExpiresInDays: 1})
	if err != nil {
		c.t.Fatalf("cloudtest: %v", err)
	}
	return &Tenant{Client: c.Client(token.Secret), Org: org, Project: "default", Email: email, Password: password}
}

// Running creates an instance and waits until it runs.
func (c *Cloud) Running(client *api.Client, in api.InstanceCreate) *api.Instance {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	i, err := client.InstanceCreate(ctx, "default", in)
	if err != nil {
		c.t.Fatalf("cloudtest: %v", err)
	}
	i, err = client.WaitInstance(ctx, "default", i.ID, func(i *api.Instance) bool { return i.State == api.StateRunning || i.State == api.StateFailed }, nil)
	if err != nil || i.State != api.StateRunning {
		c.t.Fatalf("cloudtest: %s does not run: %v %+v", in.Name, err, i)
	}
	return i
}
