package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
	"gopkg.in/yaml.v3"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/authz"
)

func humaConfig() huma.Config {
	c := huma.DefaultConfig("Tenon API", "v1")
	c.CreateHooks = nil // no $schema links in answers
	c.OpenAPIPath, c.DocsPath, c.SchemasPath = "", "", ""
	c.Formats = map[string]huma.Format{"application/json": jsonFormat, "json": jsonFormat}
	c.Info.Description = "Everything that the console and the `tenon` command do.\n\n" +
		"Answers are JSON in snake_case; times are RFC 3339 in UTC, sizes end in `_mib` or `_bytes`, money is in integer millionths (`_micros`) of the currency beside it. " +
		"A resource is addressed by its name or its id, in the same place. Lists are `{items, next_page_token}`. " +
		"Errors are `application/problem+json` with a stable `code`, a `hint` and every wrong field at once. " +
		"What is missing and what belongs to another organisation is the same 404."
	c.Info.License = &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"}
	c.Servers = []*huma.Server{{URL: "/", Description: "This control plane"}}
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{"token": {
		Type: "http", Scheme: "bearer", Description: "An API token (tenon_…), or the access token of a session. A session's requests may name an organisation in the Tenon-Org header.",
	}}
	c.Tags = tags
	return c
}

var tags = []*huma.Tag{
	{Name: "Sign-in", Description: "Sessions for people, tokens for programs."},
	{Name: "Organisations", Description: "Tenants and their people."},
	{Name: "Projects", Description: "Isolated resources with limits."},
	{Name: "Instances", Description: "What runs and holds resources."},
	{Name: "Jobs", Description: "Gangs and arrays of instances that run to an exit code."},
	{Name: "Streams", Description: "Terminals, logs, metrics and changes as they happen."},
	{Name: "Offers", Description: "Flavors, images and prices."},
	{Name: "Usage", Description: "What was used and what it cost."},
	{Name: "Fleet", Description: "Nodes, cards, pools and alarms; for platform operators."},
}

// writeContract renders the contract and its reference page once.
func (s *server) writeContract() error {
	doc := s.huma.OpenAPI()
	schemas := doc.Components.Schemas
	// Errors are declared under the name of their type in package api.
	problem := schemas.Schema(problemType, true, "Problem")
	delete(schemas.Map(), "Answer")
	for _, item := range doc.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Post, item.Put, item.Patch, item.Delete} {
			if op == nil {
				continue
			}
			delete(op.Responses, "422")
			delete(op.Responses, "500")
			streamAnswers(op)
			op.Responses["default"] = &huma.Response{Description: "A problem", Content: map[string]*huma.MediaType{
				"application/problem+json": {Schema: problem},
			}}
		}
	}
	raw, err := json.Marshal(doc)
	if err != nil {
		return fmt.Errorf("write the contract: %w", err)
	}
	if s.contract, err = jsonToYAML(raw); err != nil {
		return err
	}
	if s.reference, err = referencePage(doc); err != nil {
		return err
	}
	return nil
}

// streamAnswers declares what the streams answer, which types can't say.
func streamAnswers(op *huma.Operation) {
	plain := func(kind string) *huma.Response {
		return &huma.Response{Description: "A stream", Content: map[string]*huma.MediaType{kind: {Schema: &huma.Schema{Type: huma.TypeString}}}}
	}
	switch authz.Action(op.OperationID) {
	case authz.InstanceLogs:
		op.Responses["200"] = plain("text/plain")
	case authz.ProjectEvents:
		op.Responses["200"] = plain("text/event-stream")
	case authz.InstanceExec:
		delete(op.Responses, "200")
		op.Responses["101"] = &huma.Response{Description: "The WebSocket is open"}
	}
}

// jsonToYAML keeps the order of the JSON, which is sorted, and uses block style.
func jsonToYAML(raw []byte) ([]byte, error) {
	var node yaml.Node
	if err := yaml.Unmarshal(raw, &node); err != nil {
		return nil, fmt.Errorf("write the contract as YAML: %w", err)
	}
	blockStyle(&node)
	var b bytes.Buffer
	b.WriteString("# Written by `tenond openapi` from the server's own operations; do not edit.\n")
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(&node); err != nil {
		return nil, fmt.Errorf("write the contract as YAML: %w", err)
	}
	return b.Bytes(), nil
}

func blockStyle(n *yaml.Node) {
	n.Style &^= yaml.FlowStyle | yaml.DoubleQuotedStyle
	for _, c := range n.Content {
		blockStyle(c)
	}
}

var problemType = reflect.TypeFor[api.Problem]()
