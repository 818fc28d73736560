// Package wall checks the house itself: which package may import which, and the
// habits that a compiler doesn't see. Its test reads the whole repository; each
// finding names the file, what is wrong and the rule.
//
// Imports: the standard library only. Nothing imports it.
package wall

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"strconv"
	"strings"
)

const module = "github.com/tenon-cloud/tenon"

// File is one file of the repository, with its path from the root.
type File struct {
	Path string
	Text string
}

// Finding is one broken rule.
type Finding struct {
	Where string // path, with a line where there is one
	What  string
	Rule  string
}

func (f Finding) String() string { return fmt.Sprintf("%s: %s\n\trule: %s", f.Where, f.What, f.Rule) }

// Check looks at every file with every rule.
func Check(files []File) []Finding {
	var all []Finding
	documented := map[string]bool{}
	packages := map[string]string{}
	for _, f := range files {
		all = append(all, checkName(f)...)
		all = append(all, checkLength(f)...)
		if path.Ext(f.Path) != ".go" {
			continue
		}
		set := token.NewFileSet()
		tree, err := parser.ParseFile(set, f.Path, f.Text, parser.ParseComments)
		if err != nil {
			all = append(all, Finding{f.Path, err.Error(), "Go files parse"})
			continue
		}
		g := goFile{File: f, set: set, tree: tree, dir: path.Dir(f.Path), test: strings.HasSuffix(f.Path, "_test.go")}
		all = append(all, g.checkImports()...)
		all = append(all, g.checkHabits()...)
		if !g.test {
			packages[g.dir] = f.Path
			documented[g.dir] = documented[g.dir] || tree.Doc != nil
		}
	}
	for dir, file := range packages {
		if !documented[dir] {
			all = append(all, Finding{file, "package " + dir + " has no package comment", "every package says what it is for and what it may import"})
		}
	}
	return all
}

// goFile is a parsed file.
type goFile struct {
	File
	set  *token.FileSet
	tree *ast.File
	dir  string
	test bool
}

func (g goFile) at(pos token.Pos) string {
	return g.Path + ":" + strconv.Itoa(g.set.Position(pos).Line)
}

func (g goFile) checkImports() []Finding {
	var all []Finding
	for _, spec := range g.tree.Imports {
		target, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		rule := ""
		if inside, ours := strings.CutPrefix(target, module+"/"); ours {
			rule = brokenWall(g.dir, inside, g.test)
		} else {
			rule = brokenReserve(g.dir, target, g.test)
		}
		if rule != "" {
			all = append(all, Finding{g.at(spec.Pos()), "imports " + target, rule})
		}
	}
	return all
}
