package app

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/crypto/ssh"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

const (
	sshKeysMaximum  = 16
	sshKeyBytes     = 16 << 10
	userDataBytes   = 64 << 10
	vmMemoryMinimum = 1 << 10 // MiB: less and a distribution's kernel does not boot
	vmDiskMinimum   = 4 << 10 // MiB
)

// kindFields checks what only some kinds of instances take.
func kindFields(kind cloud.InstanceKind, in InstanceInput) (fields []cloud.Field) {
	bad := func(at, message string, value any) {
		fields = append(fields, cloud.Field{Location: "body." + at, Message: message, Value: value})
	}
	if kind == cloud.KindVM {
		if in.Command != nil {
			bad("command", "a virtual machine boots its own system: put what it shall run into user_data", nil)
		}
		if len(in.Env) > 0 {
			bad("env", "a virtual machine has no environment from outside: put it into user_data", nil)
		}
		return append(fields, loginFields(in)...)
	}
	if len(in.SSHKeys) > 0 {
		bad("ssh_keys", fmt.Sprintf("for virtual machines; into a %s goes `tenon instance shell`", kind), nil)
	}
	if in.UserData != "" {
		bad("user_data", fmt.Sprintf("for virtual machines; give a %s its command and environment", kind), nil)
	}
	if in.OnStop == cloud.StopHolds {
		bad("on_stop", fmt.Sprintf("only a virtual machine can hold its place: a stopped %s gives it back", kind), in.OnStop)
	}
	return fields
}

// loginFields checks how its owner gets into a VM. Neither a key that was taken
// for a public one nor user data is ever told back.
func loginFields(in InstanceInput) (fields []cloud.Field) {
	bad := func(at, message string) {
		fields = append(fields, cloud.Field{Location: "body." + at, Message: message})
	}
	if len(in.SSHKeys) > sshKeysMaximum {
		bad("ssh_keys", fmt.Sprintf("at most %d", sshKeysMaximum))
	}
	for i, k := range in.SSHKeys {
		if why := keyProblem(k); why != "" {
			bad(fmt.Sprintf("ssh_keys[%d]", i), why)
		}
	}
	if len(in.UserData) > userDataBytes {
		bad("user_data", fmt.Sprintf("at most %d KiB", userDataBytes>>10))
	}
	if !utf8.ValidString(in.UserData) || strings.ContainsRune(in.UserData, 0) {
		bad("user_data", "UTF-8 without zero bytes")
	}
	return fields
}

// keyProblem says what is wrong with a line that should be a public key.
func keyProblem(line string) string {
	line = strings.TrimSpace(line)
	switch {
	case strings.Contains(line, "PRIVATE KEY"):
		return "this is a private key, which nobody else should have: give the public one, from the file that ends in .pub"
	case len(line) > sshKeyBytes || strings.ContainsAny(line, "\r\n\x00"):
		return "one public key in one line"
	}
	_, _, options, _, err := ssh.ParseAuthorizedKey([]byte(line))
	switch {
	case err != nil:
		return "not a public key as OpenSSH writes it: \"ssh-ed25519 AAAA… comment\""
	case len(options) > 0:
		return "a key without options before it"
	}
	return ""
}

// keyLines are keys as they are kept: their comments too.
func keyLines(keys []string) []string {
	out := make([]string, len(keys))
	for i, k := range keys {
		out[i] = strings.TrimSpace(k)
	}
	return out
}

// flavorFields checks that a kind of instance can have a shape.
func flavorFields(kind cloud.InstanceKind, f cloud.Flavor, asked string) (fields []cloud.Field) {
	bad := func(message string) {
		fields = append(fields, cloud.Field{Location: "body.flavor", Message: message, Value: asked})
	}
	if kind != cloud.KindVM {
		if f.Shape.GPUMode == cloud.ModeVGPU {
			bad("only a virtual machine can hold a virtual GPU: take a VM, or a flavor of whole GPUs or MIG slices")
		}
		return fields
	}
	if f.Shape.GPUMode == cloud.ModeShared {
		bad("a virtual machine can't hold a share of a GPU: take a container, a whole GPU, or a flavor of a vGPU type")
	}
	if f.Shape.GPUMode == cloud.ModeMIG {
		bad("a virtual machine can't hold a MIG slice: take a container, a whole GPU, or a flavor of a MIG-backed vGPU type")
	}
	if f.Shape.MemoryMiB < vmMemoryMinimum || f.Shape.DiskMiB < vmDiskMinimum {
		bad(fmt.Sprintf("a virtual machine needs at least %d MiB of memory and %d MiB of disk; flavor %q has %d and %d",
			vmMemoryMinimum, vmDiskMinimum, f.Name, f.Shape.MemoryMiB, f.Shape.DiskMiB))
	}
	return fields
}
