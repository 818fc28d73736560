package network

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"text/template"
)

// ruleset replaces both tables in one transaction. The inet table is what guests
// may reach; the bridge table pins each port to its own addresses.
var ruleset = template.Must(template.New("nft").Parse(`
add table inet {{.Table}}
delete table inet {{.Table}}
add table bridge {{.Table}}
delete table bridge {{.Table}}
table inet {{.Table}} {
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
		oifname "tn*" drop
		ip saddr != {{.Subnet}} drop
		ip daddr { 0.0.0.0/8, 127.0.0.0/8, 169.254.0.0/16, 224.0.0.0/3 } drop
		accept
	}
	chain to_guest {
		ct state established,related accept
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
		elements = { {{range $i, $g := .Guests}}{{if $i}}, {{end}}"{{$g.Port}}"{{end}} }
{{- end}}
	}
	set guests {
		type ifname . ipv4_addr . ether_addr
{{- if .Guests}}
		elements = { {{range $i, $g := .Guests}}{{if $i}}, {{end}}"{{$g.Port}}" . {{$g.Address}} . {{$g.MAC}}{{end}} }
{{- end}}
	}
	chain prerouting {
		type filter hook prerouting priority -300; policy accept;
		iifname @ports jump from_guest
	}
	chain from_guest {
		iifname . ip saddr . ether saddr @guests accept
		ether type arp iifname . arp saddr ip . arp saddr ether @guests accept
		drop
	}
}
`))

func (n *Network) applyFirewall(ctx context.Context) error {
	var guests []Attachment
	for _, id := range append(n.Attached(), n.AttachedVMs()...) {
		if a, err := n.readAttachment(id); err == nil && a.Address != "" {
			guests = append(guests, a)
		}
	}
	var rules bytes.Buffer
	err := ruleset.Execute(&rules, map[string]any{
		"Table": n.tableName(), "Bridge": n.bridge, "Gateway": n.Gateway(), "Subnet": n.plan.Subnet,
		"Uplinks": n.uplinks, "Guests": guests,
	})
	if err != nil {
		return fmt.Errorf("write firewall rules: %w", err)
	}
	return nft(ctx, rules.String())
}

func (n *Network) allowPort(ctx context.Context, a Attachment) error {
	return nft(ctx, fmt.Sprintf("add element bridge %[1]s ports { \"%[2]s\" }\nadd element bridge %[1]s guests { \"%[2]s\" . %[3]s . %[4]s }\n",
		n.tableName(), a.Port, a.Address, a.MAC))
}

// forgetPort is best effort: the elements name a port that no longer exists.
func (n *Network) forgetPort(ctx context.Context, a Attachment) {
	n.mu.Lock()
	defer n.mu.Unlock()
	_ = nft(ctx, fmt.Sprintf("delete element bridge %[1]s guests { \"%[2]s\" . %[3]s . %[4]s }\ndelete element bridge %[1]s ports { \"%[2]s\" }\n",
		n.tableName(), a.Port, a.Address, a.MAC))
}

func (n *Network) removeFirewall(ctx context.Context) error {
	return nft(ctx, strings.ReplaceAll("add table inet T\ndelete table inet T\nadd table bridge T\ndelete table bridge T\n", "T", n.tableName()))
}

// nft applies one transaction: all of it or nothing.
func nft(ctx context.Context, rules string) error {
	cmd := exec.CommandContext(ctx, "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(rules)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("apply nftables rules: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}
