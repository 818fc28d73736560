package imagebuild

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"strings"
)

// Image is what is built: Debian's minimal base with packages and files.
type Image struct {
	Name        string
	Kind        string // container, notebook or vm
	Description string
	Packages    []string   // beyond the minimal base
	Installed   []string   // by apt, afterwards: those whose set-up debootstrap can't order
	Commands    [][]string // run in the tree, once the packages are there
	Files       []File
	Init        string // its first process
	Ports       []string
	WorkingDir  string
}

// File is one that the image has beside its packages'.
type File struct {
	Path, Text string
	Mode       fs.FileMode
}

//go:embed debian-init.sh
var debianInit string

//go:embed sshd.conf
var sshdConfig string

//go:embed notebook-init.sh
var notebookInit string

//go:embed install.sh
var installScript string

//go:embed notebook-config.py
var notebookConfig string

//go:embed welcome.ipynb
var welcome string

const initPath = "usr/local/sbin/tenon-init"

// Debian is the plain container: an SSH server and Python.
var Debian = Image{
	Name: "debian-12", Kind: "container", Description: "Debian 12 with an SSH server and Python 3",
	Packages: []string{"ca-certificates", "curl", "iproute2", "less", "openssh-server", "procps", "python3"},
	Files:    []File{{initPath, debianInit, 0o755}, {"etc/ssh/sshd_config.d/tenon.conf", sshdConfig, 0o644}},
	Init:     "/" + initPath, Ports: []string{"22/tcp"}, WorkingDir: "/root",
}

// Jupyter is the notebook: its server on port 8888, as the user tenon, whose
// home is a volume.
var Jupyter = Image{
	Name: "jupyter", Kind: "notebook", Description: "Jupyter notebook with Python 3 and NumPy",
	Packages:  []string{"ca-certificates", "curl", "git", "iproute2", "less", "procps", "python3"},
	Installed: []string{"jupyter-notebook", "python3-ipykernel", "python3-numpy", "python3-terminado"},
	Commands:  [][]string{{"useradd", "--create-home", "--uid", "1000", "--shell", "/bin/bash", "tenon"}},
	Files: []File{
		{initPath, notebookInit, 0o755},
		{"etc/jupyter/tenon_notebook_config.py", notebookConfig, 0o644},
		{"usr/local/share/tenon/welcome.ipynb", welcome, 0o644},
	},
	Init: "/" + initPath, Ports: []string{"8888/tcp"}, WorkingDir: "/home/tenon",
}

// Images are those that this package can build.
var Images = []Image{Debian, Jupyter, DebianVM}

// Recipe is the same for the same packages, commands, files and suite.
func (i Image) Recipe(suite string) string {
	h := sha256.New()
	parts := []string{"3", i.Name, suite, strings.Join(i.Packages, ","), strings.Join(i.Installed, ","), installScript, i.Init, strings.Join(i.Ports, ","), i.WorkingDir}
	for _, c := range i.Commands {
		parts = append(parts, strings.Join(c, "\x00"))
	}
	for _, f := range i.Files {
		parts = append(parts, f.Path, f.Text, f.Mode.String())
	}
	if i.Kind == "vm" {
		parts = append(parts, vmCommands...)
		parts = append(parts, vmUnneeded...)
	}
	for _, part := range parts {
		_, _ = fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}
