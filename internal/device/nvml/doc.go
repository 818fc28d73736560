// Package nvml is a host.Driver by NVIDIA's management library, which is loaded
// when the agent runs: a host without it says so and goes on. It is the only cgo
// of the agent; built without, Open says that. CDI specs come from NVIDIA's own
// nvcdi.
//
// It may import device/host, device/pci, nodewire and NVIDIA's libraries.
package nvml
