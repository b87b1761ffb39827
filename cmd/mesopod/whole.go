//go:build !agent

package main

import (
	"fmt"
	"os"
	"syscall"
)

// toAgentProgram goes over to the program for agents, mesopod-executor beside this one, which lacks control plane,
// scheduler and kubectl and so needs a third less memory. It returns only where the bundle has none, or with an error.
// Command line, environment and process stay, so that nobody else need know.
func toAgentProgram() error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	program := self + "-executor"
	if _, err := os.Stat(program); err != nil {
		return nil
	}
	if err := syscall.Exec(program, os.Args, os.Environ()); err != nil {
		return fmt.Errorf("start %s: %w", program, err)
	}
	return nil
}
