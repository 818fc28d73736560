// Command subvolume asks btrfs for a subvolume, as a guest could in its home.
package main

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"
)

func main() {
	dir, err := os.Open(os.Args[1])
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	var arg struct {
		fd   int64
		name [4088]byte
	}
	copy(arg.name[:], "escape")
	for _, request := range []uintptr{0x5000940e, 0x15000940e} { // the second with bits that the kernel drops
		_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, dir.Fd(), request, uintptr(unsafe.Pointer(&arg)))
		fmt.Printf("%#x: %d\n", request, errno)
	}
	var size [4]uint16
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, 0, syscall.TIOCGWINSZ, uintptr(unsafe.Pointer(&size)))
	fmt.Println("terminal size:", int(errno))
}
