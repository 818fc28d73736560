package host

import (
	"fmt"
	"strings"

	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// Faults that are not told as an XID.
type Fault string

const (
	FellOff      Fault = "fell_off_bus"      // a line of the kernel's log, or the function is gone or reads 0xffff
	RemapPending Fault = "row_remap_pending" // a reading
	RemapFailure Fault = "row_remap_failure" // a reading
	ResetFailed  Fault = "reset_failed"      // ours
	MissingSlice Fault = "missing_slice"     // ours
)

// ruling is what a signal means.
type ruling struct {
	family string // signals of one family are one fault
	kind   string
	action string
	text   string
	// follows: it comes after another fault, and is that one's.
	follows bool
}

// xidRuling is what NVIDIA's number means for the card. First what the design
// settles (its table wins over the catalogue, which would ignore 63 and reset for
// 109); the rest by the "immediate action" of NVIDIA's public XID catalogue:
// RESTART_APP, IGNORE and RESTART_VM leave the card alone, RESET_GPU and the
// NVLink workflows want a reset, RESTART_BM and CHECK_MECHANICALS take it out.
// What the catalogue doesn't know, or only sends to support, waits for a reset:
// that stops new work for a while and can always be left.
func xidRuling(xid int, text string) ruling {
	r := ruling{family: fmt.Sprintf("xid %d", xid), kind: "xid", action: nodewire.ActionNeedsReset, text: xidNames[xid]}
	switch xid {
	case 79:
		r.family, r.kind, r.action = string(FellOff), string(FellOff), nodewire.ActionOut
	case 119, 120:
		r.family, r.action = "gsp", nodewire.ActionOut
	case 54:
		r.action = nodewire.ActionOut
	case 48, 171, 172:
		r.family = "ecc"
	case 63:
		r.family, r.kind = string(RemapPending), string(RemapPending)
	case 64:
		r.family = string(RemapFailure)
	case 43, 45:
		r.action, r.follows = nodewire.ActionNone, true
	case 154:
		r.action, r.follows = recoveryAction(text), true
	case 144, 145, 146, 147, 148, 149, 150: // NVLink 5: the line says how bad it is
		if low := strings.ToLower(text); strings.Contains(low, "nonfatal") || strings.Contains(low, "non-fatal") {
			r.action = nodewire.ActionNone
		}
	case 8, 11, 13, 14, 25, 31, 32, 37, 38, 39, 40, 41, 44, 60, 66, 67, 68, 69, 70, 71, 72, 75, 76, 77, 78, 80, 82, 83, 84, 85, 86, 88, 89,
		92, 93, 96, 97, 98, 99, 100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 121, 126, 127, 128, 129, 130, 131, 132, 133, 134, 135,
		137, 139, 141, 151, 152, 153, 157, 159, 160, 161, 162, 163, 164, 165:
		r.action = nodewire.ActionNone
	}
	if r.text == "" {
		r.text = "a fault that Tenon does not know"
	}
	return r
}

// XIDMeans is the table for cards that are simulated: what NVIDIA's number is called,
// does to its card and says.
func XIDMeans(xid int) (kind, action, text string) {
	s := Signal{XID: xid}
	r := rulingOf(s)
	return r.kind, r.action, message(s, r)
}

// recoveryAction reads what XID 154 says is needed now.
func recoveryAction(text string) string {
	_, to, found := strings.Cut(text, " to 0x")
	switch {
	case !found:
		return nodewire.ActionNeedsReset
	case strings.HasPrefix(to, "0"):
		return nodewire.ActionNone
	case strings.HasPrefix(to, "2"):
		return nodewire.ActionOut // a reboot of the host
	}
	return nodewire.ActionNeedsReset
}

func rulingOf(s Signal) ruling {
	switch s.Fault {
	case FellOff:
		return ruling{family: string(FellOff), kind: string(FellOff), action: nodewire.ActionOut, text: "the card has fallen off the bus"}
	case RemapPending:
		return ruling{family: string(RemapPending), kind: string(RemapPending), action: nodewire.ActionNeedsReset, text: "a row of its memory is replaced at the next reset"}
	case RemapFailure:
		return ruling{family: string(RemapFailure), kind: string(RemapFailure), action: nodewire.ActionOut, text: "a row of its memory could not be replaced"}
	case ResetFailed:
		return ruling{family: string(ResetFailed), kind: string(ResetFailed), action: nodewire.ActionOut, text: "it could not be reset"}
	case MissingSlice:
		return ruling{family: string(MissingSlice) + " " + s.Text, kind: string(MissingSlice), action: nodewire.ActionNone, text: "a slice of its layout is missing"}
	}
	return xidRuling(s.XID, s.Text)
}

var xidNames = map[int]string{
	8: "the GPU stopped processing", 11: "invalid or corrupted push buffer stream", 13: "a program's graphics engine exception",
	31: "a program's GPU memory page fault", 32: "invalid or corrupted push buffer stream", 43: "a program's work stopped on the GPU",
	45: "a program was ended after an earlier fault", 46: "the GPU stopped processing", 48: "double-bit ECC error", 54: "auxiliary power is not connected",
	62: "the GPU's microcontroller halted", 63: "a row of its memory is to be replaced", 64: "a row of its memory could not be recorded for replacement",
	68: "a program's video decoder exception", 69: "a program's graphics engine class error", 74: "NVLink error", 78: "a vGPU could not start",
	79: "the card has fallen off the bus", 92: "many single-bit ECC errors", 94: "contained memory error", 95: "uncontained memory error",
	109: "a program's context switch timed out", 110: "security fault", 119: "the GPU's system processor does not answer", 120: "the GPU's system processor failed",
	136: "NVLink training failed", 140: "unrecovered ECC error", 143: "the GPU could not be initialised", 151: "key rotation failed",
	154: "the driver asks for another recovery", 155: "NVLink error", 156: "a resource is to be retired", 158: "fatal timeout of the GPU",
	167: "fatal PCIe timeout", 168: "errors in protected memory", 169: "the GPU's microcontroller halted", 171: "uncorrectable DRAM error", 172: "uncorrectable SRAM error",
}
