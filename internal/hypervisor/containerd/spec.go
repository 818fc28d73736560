package containerd

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	runcoptions "github.com/containerd/containerd/api/types/runc/options"
	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/contrib/seccomp"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/pkg/oci"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/tenon-cloud/tenon/internal/device"
	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/image"
	"github.com/tenon-cloud/tenon/internal/network"
)

const (
	cpuPeriodMicros = 100_000
	leastShmMiB     = 64
	defaultPids     = 4096
	openFilesSoft   = 65_536
	openFilesHard   = 1_048_576
)

// createContainer records the guest in containerd, with everything that its task
// needs. The default spec brings the 14 default capabilities, no new privileges
// and the masked paths.
func (d *Driver) createContainer(ctx context.Context, spec hypervisor.Spec, img image.Image, at network.Attachment, ids network.IDRange, homes []home) (client.Container, error) {
	devices, err := json.Marshal(spec.Devices)
	if err != nil {
		return nil, fmt.Errorf("encode devices: %w", err)
	}
	config, err := img.Spec(ctx)
	if err != nil {
		return nil, fmt.Errorf("read image configuration: %w", err)
	}
	if err := d.writeHostFiles(spec, at, ids); err != nil {
		return nil, err
	}
	mapping := []specs.LinuxIDMapping{{ContainerID: 0, HostID: ids.Base, Size: ids.Size}}
	pids := spec.PidsMax
	if pids <= 0 {
		pids = defaultPids
	}
	memory := uint64(spec.MemoryMiB) << 20
	opts := []oci.SpecOpts{
		oci.WithRootFSPath(d.rootfsPath(spec.ID)),
		oci.WithoutRunMount, // services keep folders of their images there, such as sshd's
		withImageConfig(img, config.Config.User),
		withDefaultPath,
		withOOMScore,
		withCommand(spec.Command),
		oci.WithEnv(environment(spec)),
		oci.WithHostname(spec.Name),
		oci.WithUserNamespace(mapping, mapping),
		oci.WithLinuxNamespace(specs.LinuxNamespace{Type: specs.UserNamespace, Path: at.UserNS}),
		oci.WithLinuxNamespace(specs.LinuxNamespace{Type: specs.NetworkNamespace, Path: at.NetNS}),
		oci.WithLinuxNamespace(specs.LinuxNamespace{Type: specs.CgroupNamespace}), // on v1 too
		oci.WithCgroup(d.cgroupPath(spec.ID)),
		oci.WithMemoryLimit(memory),
		oci.WithMemorySwap(int64(memory)), // memory and swap together: no swap
		oci.WithCPUCFS(int64(spec.VCPU)*cpuPeriodMicros, cpuPeriodMicros),
		oci.WithCPUShares(uint64(spec.VCPU) * 1024),
		oci.WithPidsLimit(pids),
		oci.WithDevShmSize(max(spec.MemoryMiB/2, leastShmMiB) << 10),
		oci.WithRlimit(d.openFiles()),
		func(_ context.Context, _ oci.Client, _ *containers.Container, s *oci.Spec) error {
			return d.withDevices(s, spec.ID, device.CDINames(spec.Grants), ids.Base)
		},
		withHostMasks(len(spec.Grants) > 0 || len(spec.Devices) > 0),
		withHomes(homes),
		seccomp.WithDefaultProfile(), // last: it follows the capabilities
	}
	if len(homes) > 0 {
		opts = append(opts, withoutBtrfs)
	}
	opts = append(opts, d.besideGPUs(spec)...)
	return d.client.NewContainer(ctx, spec.ID,
		client.WithContainerLabels(map[string]string{
			labelEpoch: strconv.FormatInt(spec.Epoch, 10), labelGeneration: strconv.FormatInt(spec.Generation, 10),
			labelOrg: spec.OrgID, labelDevices: string(devices), labelAddress: at.Address, labelSignal: config.Config.StopSignal,
		}),
		client.WithRuntime(runtimeName, &runcoptions.Options{
			Root: filepath.Join(d.cfg.RunDir, "runc"), IoUid: ids.Base, IoGid: ids.Base,
		}),
		client.WithNewSpec(opts...),
	)
}

// withCommand replaces the image's entry point and command.
func withCommand(command []string) oci.SpecOpts {
	return func(_ context.Context, _ oci.Client, _ *containers.Container, s *oci.Spec) error {
		if len(command) > 0 {
			s.Process.Args = command
		}
		if len(s.Process.Args) == 0 {
			return startFailure("the image has no command and none was given", nil)
		}
		return nil
	}
}

// withOOMScore replaces what the daemon would hand down.
func withOOMScore(_ context.Context, _ oci.Client, _ *containers.Container, s *oci.Spec) error {
	score := guestOOMScore
	s.Process.OOMScoreAdj = &score
	return nil
}

// withDefaultPath serves images that name no PATH.
func withDefaultPath(_ context.Context, _ oci.Client, _ *containers.Container, s *oci.Spec) error {
	for _, v := range s.Process.Env {
		if strings.HasPrefix(v, "PATH=") {
			return nil
		}
	}
	s.Process.Env = append(s.Process.Env, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	return nil
}

func environment(spec hypervisor.Spec) []string {
	env := []string{"HOSTNAME=" + spec.Name}
	for k, v := range spec.Env {
		env = append(env, k+"="+v)
	}
	sort.Strings(env)
	return env
}
