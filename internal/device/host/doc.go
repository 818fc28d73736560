// Package host is a board of real cards: what the kernel and a vendor's driver
// say of them, and how each mode gives them to guests. Decisions are functions of
// values, one file a mode; what touches the world is behind small interfaces
// (Driver, Fabric), which tests simulate.
//
// It may import device, device/pci, nodewire, gpu and durable.
package host
