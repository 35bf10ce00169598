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

func init() { loads["etcd"] = etcdServer }

// etcdServer is written to by several clients.
func etcdServer(stop <-chan struct{}, folder string) error {
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
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{"127.0.0.1:23790"}})
	if err != nil {
		return err
	}
	var n atomic.Int64
	for range 32 {
		go until(stop, func() {
			c.Put(context.Background(), fmt.Sprintf("key%d", n.Add(1)%10000), "a value of some length, as configurations have")
		})
	}
	return nil
}
