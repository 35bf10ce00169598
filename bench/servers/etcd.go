//go:build !small

package main

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"sync/atomic"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
)

func init() { loads["etcd"], idles["etcd"] = etcdServer, startEtcd }

// watcher is the key of a context value.
type watcher struct{}

// etcdServer is written to by several clients. Others watch keys that do not change, and keep
// leases alive.
func etcdServer(stop <-chan struct{}, folder string) error {
	if err := startEtcd(folder); err != nil {
		return err
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{"127.0.0.1:23790"}})
	if err != nil {
		return err
	}
	for i := range 16 {
		ctx := context.WithValue(context.Background(), watcher{}, i) // a stream of its own
		events := c.Watch(clientv3.WithRequireLeader(ctx), fmt.Sprintf("watched%d", i))
		go func() {
			for range events {
			}
		}()
	}
	lease, err := c.Grant(context.Background(), 60)
	if err != nil {
		return err
	}
	alive, err := c.KeepAlive(context.Background(), lease.ID)
	if err != nil {
		return err
	}
	go func() {
		for range alive {
		}
	}()
	var n atomic.Int64
	for range 32 {
		go until(stop, func() {
			timed("grpc", func() {
				c.Put(context.Background(), fmt.Sprintf("key%d", n.Add(1)%10000), "a value of some length, as configurations have")
			})
		})
	}
	return nil
}

func startEtcd(folder string) error {
	cfg := embed.NewConfig()
	cfg.Dir = filepath.Join(folder, "etcd")
	cfg.LogLevel = "error"
	for _, l := range []*[]url.URL{&cfg.ListenClientUrls, &cfg.AdvertiseClientUrls} {
		*l = []url.URL{{Scheme: "http", Host: "127.0.0.1:23790"}}
	}
	for _, l := range []*[]url.URL{&cfg.ListenPeerUrls, &cfg.AdvertisePeerUrls} {
		*l = []url.URL{{Scheme: "http", Host: "127.0.0.1:23800"}}
	}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return err
	}
	<-e.Server.ReadyNotify()
	return nil
}
