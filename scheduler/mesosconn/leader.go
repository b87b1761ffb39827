package mesosconn

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// infoPrefix is how the nodes are called that contending masters make: the prefix and a sequence number. Others that lie
// beside them, such as log_replicas, are not masters. [Mesos, src/master/constants.hpp, MASTER_INFO_JSON_LABEL]
const infoPrefix = "json.info_"

// leading is the node of the master that leads, the one with the lowest sequence number, or "" if there is none. ZooKeeper
// lists nodes in no order. [Mesos, src/master/detector/zookeeper.cpp and src/zookeeper/group.cpp]
func leading(nodes []string) string {
	leader, lowest := "", int64(0)
	for _, node := range nodes {
		text, is := strings.CutPrefix(node, infoPrefix)
		if !is {
			continue
		}
		// ZooKeeper counts in 32 bits with a sign, and so begins anew below zero.
		number, err := strconv.ParseInt(text, 10, 32)
		if err == nil && (leader == "" || number < lowest) {
			leader, lowest = node, number
		}
	}
	return leader
}

// masterInfo is what of MasterInfo is read.
type masterInfo struct {
	Hostname string `json:"hostname"`
	PID      string `json:"pid"`
	Address  struct {
		Hostname string `json:"hostname"`
		IP       string `json:"ip"`
		Port     int    `json:"port"`
	} `json:"address"`
}

// parseMasterInfo reads where a master is from its node. With https that is its host name, since certificates name hosts;
// else the address it listens at, as Mesos' own programs take it.
func parseMasterInfo(data []byte, secure bool) (*url.URL, error) {
	var info masterInfo
	if err := json.Unmarshal(data, &info); err != nil {
		return nil, fmt.Errorf("it is no MasterInfo: %w", err)
	}
	host, port := info.Address.IP, strconv.Itoa(info.Address.Port)
	if host == "" || info.Address.Port == 0 {
		_, endpoint, _ := strings.Cut(info.PID, "@")
		var err error
		if host, port, err = net.SplitHostPort(endpoint); err != nil {
			return nil, errors.New("its MasterInfo has neither an address nor a pid with one")
		}
	}
	if secure {
		for _, name := range []string{info.Hostname, info.Address.Hostname} {
			if name != "" {
				host = name
			}
		}
	}
	return &url.URL{Scheme: scheme(secure), Host: net.JoinHostPort(host, port)}, nil
}
