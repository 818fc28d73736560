package httpapi

import (
	"fmt"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenon-cloud/tenon/api"
)

// nearest finds the known word that an unknown one most likely stands for.
func nearest(word string, known []string) (string, bool) {
	best, bestAt := "", len(word)/2+1
	for _, k := range known {
		if d := distance(strings.ToLower(word), strings.ToLower(k)); d < bestAt || d == bestAt && best == "" && d <= 2 {
			best, bestAt = k, d
		}
	}
	return best, best != ""
}

// distance counts the edits between two words; a swap of neighbours is one.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}

// explain rewords huma's findings for a person.
func explain(op *huma.Operation, f *api.ProblemField) {
	switch f.Message {
	case "unexpected property":
		parent, name := cutLast(f.Location)
		f.Value = nil
		f.Message = "unknown field" + suggestion(name, fieldsAt(op, parent))
	case unknownQuery:
		_, name := cutLast(f.Location)
		f.Value = nil
		f.Message = "unknown query parameter" + suggestion(name, queryOf(op))
	case "invalid integer", "invalid float", "invalid boolean": // of a query or a header
		f.Message = "must " + kinds[map[string]string{"invalid integer": "integer", "invalid float": "number", "invalid boolean": "boolean"}[f.Message]]
	default:
		if s, ok := strings.CutPrefix(f.Message, "expected required property "); ok {
			name := strings.TrimSuffix(s, " to be present")
			f.Location, f.Value = f.Location+"."+name, nil
			f.Message = "is missing"
		} else if s, ok := strings.CutPrefix(f.Message, "expected string to be "); ok {
			f.Message = "must be " + s
		} else if s, ok := strings.CutPrefix(f.Message, "expected value to be one of "); ok {
			f.Message = "must be one of " + strings.Trim(strings.ReplaceAll(s, `", "`, ", "), `"`)
			if word, ok := f.Value.(string); ok {
				if n, ok := nearest(word, strings.Split(strings.TrimPrefix(f.Message, "must be one of "), ", ")); ok {
					f.Message += fmt.Sprintf("; did you mean %q?", n)
				}
			}
		} else if s, ok := strings.CutPrefix(f.Message, "expected "); ok {
			f.Message = "must " + inWords(s)
		}
	}
}

func suggestion(name string, known []string) string {
	if n, ok := nearest(name, known); ok {
		return fmt.Sprintf("; did you mean %q?", n)
	}
	if len(known) == 0 {
		return "; none is allowed here"
	}
	return "; known are " + strings.Join(known, ", ")
}

func cutLast(path string) (parent, name string) {
	i := strings.LastIndexByte(path, '.')
	if i < 0 {
		return "", path
	}
	return path[:i], path[i+1:]
}

// fieldsAt lists the known fields of the object at a path into the body.
func fieldsAt(op *huma.Operation, path string) []string {
	if op == nil || op.RequestBody == nil || op.RequestBody.Content["application/json"] == nil {
		return nil
	}
	reg := registryOf(op)
	s := deref(reg, op.RequestBody.Content["application/json"].Schema)
	for _, step := range strings.Split(path, ".")[1:] {
		name, _, indexed := strings.Cut(step, "[")
		if s = deref(reg, s); s == nil {
			return nil
		}
		if s = deref(reg, s.Properties[name]); s != nil && indexed {
			s = deref(reg, s.Items)
		}
	}
	if s == nil {
		return nil
	}
	var out []string
	for k := range s.Properties {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func queryOf(op *huma.Operation) []string {
	var out []string
	if op != nil {
		for _, p := range op.Parameters {
			if p.In == "query" {
				out = append(out, p.Name)
			}
		}
	}
	slices.Sort(out)
	return out
}

func registryOf(op *huma.Operation) huma.Registry {
	reg, _ := op.Metadata[metaRegistry].(huma.Registry)
	return reg
}

func deref(reg huma.Registry, s *huma.Schema) *huma.Schema {
	for s != nil && s.Ref != "" && reg != nil {
		s = reg.SchemaFromRef(s.Ref)
	}
	return s
}
