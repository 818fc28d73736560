package wall

import (
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	maxLines     = 500
	maxTestLines = 800
)

// emptyNames say nothing of what is inside.
var emptyNames = []string{"util", "utils", "common", "helper", "helpers", "misc", "base", "manager", "types", "models", "services"}

var written = regexp.MustCompile(`\.(go|ts|tsx|css|sh)$`)

// generated files are as long as they are.
var generated = regexp.MustCompile(`(_gen|\.gen|\.d)\.[a-z]+$|(^|/)(dist|node_modules|testdata)/`)

func checkName(f File) []Finding {
	if generated.MatchString(f.Path) || !written.MatchString(f.Path) {
		return nil
	}
	parts := strings.Split(f.Path, "/")
	stem, _, _ := strings.Cut(path.Base(f.Path), ".")
	parts[len(parts)-1] = strings.TrimSuffix(stem, "_test")
	for _, part := range parts {
		if slices.Contains(emptyNames, part) {
			return []Finding{{f.Path, "the name " + strconv.Quote(part) + " says nothing", "packages and files are named by what they are: never util, common, helpers, types, manager, base"}}
		}
	}
	return nil
}

func checkLength(f File) []Finding {
	if generated.MatchString(f.Path) || !written.MatchString(f.Path) {
		return nil
	}
	limit := maxLines
	if strings.HasSuffix(f.Path, "_test.go") || strings.Contains(f.Path, ".test.") || strings.Contains(f.Path, "/e2e/") {
		limit = maxTestLines
	}
	if n := strings.Count(f.Text, "\n"); n > limit {
		return []Finding{{f.Path, strconv.Itoa(n) + " lines", "a file is one idea: at most " + strconv.Itoa(maxLines) + " lines, a test " + strconv.Itoa(maxTestLines)}}
	}
	return nil
}

var (
	unfinished   = regexp.MustCompile(`\b(TODO|FIXME|XXX|HACK)\b`)
	statement    = regexp.MustCompile(`(?s)^\s*(SELECT\s.+\sFROM\s|INSERT\s+INTO\s|UPDATE\s+\w+\s+SET\s|DELETE\s+FROM\s|CREATE\s+(TABLE|ROLE|DATABASE)\s|LISTEN\s|NOTIFY\s)`)
	claimInsert  = regexp.MustCompile(`(?is)INSERT\s+INTO\s+gpu_claim\b`)
	skipConflict = regexp.MustCompile(`(?is)ON\s+CONFLICT\s+DO\s+NOTHING`)
)

// sqlUsers may hold SQL besides package postgres.
var sqlUsers = []string{"internal/postgres", "internal/devcloud", "internal/pgtest", "internal/looptest", "internal/proof", "internal/cloudtest", "internal/wall", "migrations"}

// checkHabits walks one Go file.
func (g goFile) checkHabits() []Finding {
	var all []Finding
	add := func(pos token.Pos, what, rule string) { all = append(all, Finding{g.at(pos), what, rule}) }
	if g.dir != "internal/wall" {
		for _, group := range g.tree.Comments {
			for _, c := range group.List {
				if word := unfinished.FindString(c.Text); word != "" {
					add(c.Pos(), "a comment says "+word, "what is left to do is an issue, not a comment")
				}
			}
		}
	}
	name, _ := floorOf(g.dir)
	ast.Inspect(g.tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			g.checkCall(n, name, add)
		case *ast.BasicLit, *ast.BinaryExpr:
			text, whole := literal(n.(ast.Expr))
			if !whole {
				return true
			}
			if claimInsert.MatchString(text) && !skipConflict.MatchString(text) && !g.test && g.dir != "internal/wall" {
				add(n.Pos(), "a plain INSERT INTO gpu_claim", "claims are inserted sorted and with ON CONFLICT DO NOTHING, and then counted: two racing plain inserts deadlock (decision 1)")
			}
			if statement.MatchString(text) && !g.test && !slices.Contains(sqlUsers, name) {
				add(n.Pos(), "SQL outside package postgres", "only package postgres speaks SQL")
			}
			return false
		}
		return true
	})
	return all
}

// checkCall looks for calls that a test or a pure package must not make.
func (g goFile) checkCall(call *ast.CallExpr, name string, add func(token.Pos, string, string)) {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return
	}
	on, _ := sel.X.(*ast.Ident)
	switch {
	case on != nil && on.Name == "time" && sel.Sel.Name == "Sleep" && g.test:
		add(call.Pos(), "time.Sleep in a test", "tests wait for a signal or a state with a deadline, never for time")
	case on != nil && on.Name == "time" && slices.Contains([]string{"Now", "Since", "Until", "After", "Sleep", "NewTimer", "NewTicker"}, sel.Sel.Name) && slices.Contains(pure, name) && !g.test:
		add(call.Pos(), "time."+sel.Sel.Name+" in a pure package", "cloud, gpu, placement, packing, fairshare, queue, billing and authz import no I/O, clock, context or log")
	case on != nil && (on.Name == "t" || on.Name == "b") && sel.Sel.Name == "Skip" && len(call.Args) == 0 || sel.Sel.Name == "SkipNow" && len(call.Args) == 0:
		add(call.Pos(), "a test is skipped without a reason", "a skipped test prints why")
	}
}

// literal puts together a string that is written in pieces; a piece that isn't
// a literal stands as "?".
func literal(e ast.Expr) (text string, whole bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return "", false
		}
		text, err := strconv.Unquote(e.Value)
		return text, err == nil
	case *ast.BinaryExpr:
		if e.Op != token.ADD {
			return "", false
		}
		left, okLeft := literal(e.X)
		right, okRight := literal(e.Y)
		if !okLeft && !okRight {
			return "", false
		}
		if !okLeft {
			left = "?"
		}
		if !okRight {
			right = "?"
		}
		return left + right, true
	case *ast.ParenExpr:
		return literal(e.X)
	}
	return "", false
}
