package network

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"text/template"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// ruleset replaces both tables in one transaction. The inet table is what guests
// may reach; the bridge table pins each port to its own addresses, and lets a frame
// from one guest to another only within a group. The bridge itself keeps ports apart
// too, except those of groups. Frames that cross the bridge come by the inet table as
// well where the host has bridges call it.
var ruleset = template.Must(template.New("nft").Parse(`
add table inet {{.Table}}
delete table inet {{.Table}}
add table bridge {{.Table}}
delete table bridge {{.Table}}
table inet {{.Table}} {
	set peers {
		type ipv4_addr . ipv4_addr
{{- if .Pairs}}
		elements = { {{range .Pairs}}{{.From.Address}} . {{.To.Address}}, {{end}} }
{{- end}}
	}
	chain input {
		type filter hook input priority -10; policy accept;
		iifname "{{.Bridge}}" jump from_guest_to_host
	}
	chain from_guest_to_host {
		meta nfproto ipv6 drop
		ct state established,related accept
		ip daddr {{.Gateway}} udp dport 53 accept
		ip daddr {{.Gateway}} tcp dport 53 accept
		ip daddr {{.Gateway}} icmp type echo-request accept
		drop
	}
	chain forward {
		type filter hook forward priority -10; policy accept;
		iifname "{{.Bridge}}" jump from_guest
		oifname "{{.Bridge}}" jump to_guest
{{- range .Uplinks}}
		iifname "{{.}}" oifname != "tn*" drop
{{- end}}
	}
	chain from_guest {
		meta nfproto ipv6 drop
		oifname "{{.Bridge}}" ip saddr . ip daddr @peers accept
		oifname "tn*" drop
		ip saddr != {{.Subnet}} drop
		ip daddr { 0.0.0.0/8, 127.0.0.0/8, 169.254.0.0/16, 224.0.0.0/3 } drop
		accept
	}
	chain to_guest {
		ct state established,related accept
		iifname "{{.Bridge}}" ip saddr . ip daddr @peers accept
		drop
	}
	chain postrouting {
		type nat hook postrouting priority 100; policy accept;
		ip saddr {{.Subnet}} oifname != "{{.Bridge}}" masquerade
	}
}
table bridge {{.Table}} {
	set ports {
		type ifname
{{- if .Guests}}
		elements = { {{range .Guests}}"{{.Port}}", {{end}} }
{{- end}}
	}
	set guests {
		type ifname . ipv4_addr . ether_addr
{{- if .Guests}}
		elements = { {{range .Guests}}"{{.Port}}" . {{.Address}} . {{.MAC}}, {{end}} }
{{- end}}
	}
	set peers {
		type ifname . ifname
{{- if .Pairs}}
		elements = { {{range .Pairs}}"{{.From.Port}}" . "{{.To.Port}}", {{end}} }
{{- end}}
	}
	chain prerouting {
		type filter hook prerouting priority -300; policy accept;
		iifname @ports jump from_guest
	}
	chain forward {
		type filter hook forward priority -200; policy accept;
		iifname @ports oifname @ports jump between_guests
	}
	chain between_guests {
		iifname . oifname @peers accept
		drop
	}
	chain from_guest {
		iifname . ip saddr . ether saddr @guests accept
		ether type arp iifname . arp saddr ip . arp saddr ether @guests accept
		drop
	}
}
`))

// ensureFirewall leaves rules alone that stand, and else writes all of them.
func (n *Network) ensureFirewall(ctx context.Context) error {
	generation := rulesGeneration()
	if n.standing != "" && generation != 0 && generation == n.generation {
		return nil // no rule of this host has changed since
	}
	if n.standing != "" {
		err := n.firewallStands(ctx)
		if err == nil {
			n.generation = generation
			return nil
		}
		n.log.Error("packet rules of this cloud were gone or changed by somebody else: guests were not kept apart; written anew", "bridge", n.bridge, "error", err)
	}
	return n.applyFirewall(ctx)
}

// applyFirewall writes both tables in one transaction, and remembers their look.
func (n *Network) applyFirewall(ctx context.Context) error {
	n.standing = ""
	var rules bytes.Buffer
	err := ruleset.Execute(&rules, map[string]any{
		"Table": n.tableName(), "Bridge": n.bridge, "Gateway": n.Gateway(), "Subnet": n.plan.Subnet,
		"Uplinks": n.uplinks, "Guests": n.pinned, "Pairs": n.pairs(),
	})
	if err != nil {
		return fmt.Errorf("write firewall rules: %w", err)
	}
	if err := nft(ctx, rules.String()); err != nil {
		return err
	}
	generation := rulesGeneration()
	look, pins, err := n.listFirewall(ctx)
	if err != nil {
		return err
	}
	if err := n.allPinned(pins); err != nil {
		return err
	}
	n.standing, n.generation = look, generation
	return nil
}

// firewallStands says what is wrong with the rules; nil: nothing.
func (n *Network) firewallStands(ctx context.Context) error {
	look, pins, err := n.listFirewall(ctx)
	if err != nil {
		return err
	}
	if look != n.standing {
		return errors.New("rules were changed")
	}
	return n.allPinned(pins)
}

var (
	elements = regexp.MustCompile(`elements = \{([^}]*)\}`)
	spaces   = regexp.MustCompile(`\s+`)
)

// listFirewall reads the rules as they are, with the sets' elements apart.
func (n *Network) listFirewall(ctx context.Context) (look string, pins map[string]bool, err error) {
	var text string
	for _, family := range []string{"inet", "bridge"} { // nft itself finds only one of them when asked for both
		part, err := nftOutput(ctx, "list table "+family+" "+n.tableName()+"\n")
		if err != nil {
			return "", nil, err
		}
		text += part
	}
	pins = map[string]bool{}
	look = elements.ReplaceAllStringFunc(text, func(found string) string {
		inner := elements.FindStringSubmatch(found)[1]
		for pin := range strings.SplitSeq(inner, ",") {
			pins[spaces.ReplaceAllString(strings.TrimSpace(pin), " ")] = true
		}
		return ""
	})
	return strings.TrimSpace(spaces.ReplaceAllString(look, " ")), pins, nil
}

// allPinned fails if a guest's port is free to pass for another's.
func (n *Network) allPinned(pins map[string]bool) error {
	for _, a := range n.pinned {
		port := fmt.Sprintf("%q", a.Port)
		if !pins[port] || !pins[port+" . "+a.Address+" . "+a.MAC] {
			return fmt.Errorf("port %s is not held to its address", a.Port)
		}
	}
	for _, p := range n.pairs() {
		if !pins[fmt.Sprintf("%q . %q", p.From.Port, p.To.Port)] || !pins[p.From.Address+" . "+p.To.Address] {
			return fmt.Errorf("ports %s and %s are apart", p.From.Port, p.To.Port)
		}
	}
	return nil
}

// rulesGeneration counts what changes any rule of this host; 0: not known.
func rulesGeneration() uint32 {
	const getGeneration, generationID = 16, 1 // NFT_MSG_GETGEN, NFTA_GEN_ID
	req := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_NFTABLES<<8|getGeneration, 0)
	req.AddData(&nl.Nfgenmsg{})
	answers, err := req.Execute(unix.NETLINK_NETFILTER, 0)
	if err != nil || len(answers) == 0 || len(answers[0]) < nl.SizeofNfgenmsg {
		return 0
	}
	attrs, err := nl.ParseRouteAttr(answers[0][nl.SizeofNfgenmsg:])
	if err != nil {
		return 0
	}
	for _, a := range attrs {
		if a.Attr.Type == generationID && len(a.Value) == 4 {
			return binary.BigEndian.Uint32(a.Value)
		}
	}
	return 0
}

func (n *Network) allowPort(ctx context.Context, a Attachment) error {
	rules := fmt.Sprintf("add element bridge %[1]s ports { \"%[2]s\" }\nadd element bridge %[1]s guests { \"%[2]s\" . %[3]s . %[4]s }\n",
		n.tableName(), a.Port, a.Address, a.MAC)
	err := nft(ctx, rules+n.pairRules("add", n.pairsOf(a)))
	if err == nil {
		n.pinned[a.ID] = a
	}
	return err
}

// forgetPort is best effort: the elements name a port that no longer exists.
func (n *Network) forgetPort(ctx context.Context, a Attachment) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.pinned, a.ID)
	_ = nft(ctx, fmt.Sprintf("delete element bridge %[1]s guests { \"%[2]s\" . %[3]s . %[4]s }\ndelete element bridge %[1]s ports { \"%[2]s\" }\n",
		n.tableName(), a.Port, a.Address, a.MAC))
}

func (n *Network) removeFirewall(ctx context.Context) error {
	return nft(ctx, strings.ReplaceAll("add table inet T\ndelete table inet T\nadd table bridge T\ndelete table bridge T\n", "T", n.tableName()))
}

// nft applies one transaction: all of it or nothing.
func nft(ctx context.Context, rules string) error {
	if _, err := nftOutput(ctx, rules); err != nil {
		return fmt.Errorf("apply nftables rules: %w", err)
	}
	return nil
}

func nftOutput(ctx context.Context, commands string) (string, error) {
	cmd := exec.CommandContext(ctx, "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(commands)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("nft: %w: %s", err, bytes.TrimSpace(said.Bytes()))
	}
	return out.String(), nil
}
