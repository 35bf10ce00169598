// Command parca is the profile store and the query service of Parca without its user interface, whose built files the
// module lacks. It serves both over gRPC, as Parca does, and keeps all in memory. So that a test needs no gRPC, it
// passes on what comes over HTTP: OTLP profiles and pprof profiles in Pyroscope's way to the store, and /query to the query
// service.
package main

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow/memory"
	kitlog "github.com/go-kit/log"
	storepb "github.com/parca-dev/parca/gen/proto/go/parca/profilestore/v1alpha1"
	querypb "github.com/parca-dev/parca/gen/proto/go/parca/query/v1alpha1"
	"github.com/parca-dev/parca/pkg/demangle"
	"github.com/parca-dev/parca/pkg/ingester"
	"github.com/parca-dev/parca/pkg/kv"
	"github.com/parca-dev/parca/pkg/parcacol"
	"github.com/parca-dev/parca/pkg/profile"
	"github.com/parca-dev/parca/pkg/profilestore"
	"github.com/parca-dev/parca/pkg/query"
	"github.com/polarsignals/frostdb"
	"github.com/polarsignals/frostdb/dynparquet"
	frostquery "github.com/polarsignals/frostdb/query"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace/noop"
	otlp "go.opentelemetry.io/proto/otlp/collector/profiles/v1development"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

func check[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

func main() {
	ctx := context.Background()
	tracer := noop.NewTracerProvider().Tracer("")
	logger := kitlog.NewLogfmtLogger(os.Stderr)
	registry := prometheus.NewRegistry()
	memory := memory.DefaultAllocator

	columns := check(frostdb.New(frostdb.WithLogger(logger), frostdb.WithRegistry(registry), frostdb.WithTracer(tracer)))
	db := check(columns.DB(ctx, "parca"))
	table := check(db.Table("stacktraces", frostdb.NewTableConfig(profile.SchemaDefinition())))
	schema := check(dynparquet.SchemaFromDefinition(profile.SchemaDefinition()))
	store := profilestore.NewProfileColumnStore(registry, logger, tracer, ingester.NewIngester(logger, table), schema, memory)
	querier := parcacol.NewQuerier(logger, tracer, frostquery.NewEngine(memory, db.TableProvider()), "stacktraces", nil,
		check(demangle.NewDefaultDemangler()), memory)
	queries := query.NewColumnQueryAPI(logger, tracer, nil, querier, memory, parcacol.NewArrowToProfileConverter(tracer, kv.NewKeyMaker()), nil)

	server := grpc.NewServer()
	otlp.RegisterProfilesServiceServer(server, store)
	storepb.RegisterProfileStoreServiceServer(server, store)
	querypb.RegisterQueryServiceServer(server, queries)
	inside := check(net.Listen("tcp", "127.0.0.1:0"))
	go func() { log.Fatal(server.Serve(inside)) }()
	conn := check(grpc.NewClient(inside.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1<<28))))
	receiver, raw, asked := otlp.NewProfilesServiceClient(conn), storepb.NewProfileStoreServiceClient(conn), querypb.NewQueryServiceClient(conn)

	answer := func(w http.ResponseWriter, b []byte, err error) {
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Write(b)
	}
	http.HandleFunc("POST /v1development/profiles", func(w http.ResponseWriter, r *http.Request) {
		var export otlp.ExportProfilesServiceRequest
		b, err := body(r)
		if err == nil {
			err = proto.Unmarshal(b, &export)
		}
		if links := export.GetDictionary().GetLinkTable(); len(links) > 0 {
			links[0].Reset() // Parca refuses one of zero bytes, which the format recommends; a Collector sends it empty
		}
		var out []byte
		if err == nil {
			var response *otlp.ExportProfilesServiceResponse
			if response, err = receiver.Export(r.Context(), &export); err == nil {
				out, err = proto.Marshal(response)
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
		answer(w, out, err)
	})
	http.HandleFunc("POST /ingest", func(w http.ResponseWriter, r *http.Request) {
		file, _, err := r.FormFile("profile")
		var pprof []byte
		if err == nil {
			pprof, err = io.ReadAll(file)
		}
		if err == nil {
			service, _, _ := strings.Cut(r.FormValue("name"), "{")
			_, err = raw.WriteRaw(r.Context(), &storepb.WriteRawRequest{Series: []*storepb.RawProfileSeries{{
				Labels:  &storepb.LabelSet{Labels: []*storepb.Label{{Name: "__name__", Value: "pprof"}, {Name: "service_name", Value: service}}},
				Samples: []*storepb.RawSample{{RawProfile: pprof}},
			}}})
		}
		answer(w, nil, err)
	})
	// A pprof profile of all that a query selects.
	http.HandleFunc("GET /query", func(w http.ResponseWriter, r *http.Request) {
		response, err := asked.Query(r.Context(), &querypb.QueryRequest{
			Mode:       querypb.QueryRequest_MODE_MERGE,
			ReportType: querypb.QueryRequest_REPORT_TYPE_PPROF,
			Options: &querypb.QueryRequest_Merge{Merge: &querypb.MergeProfile{
				Query: r.FormValue("query"), Start: timestamppb.New(time.Unix(1, 0)), End: timestamppb.New(time.Now().AddDate(10, 0, 0)),
			}},
		})
		answer(w, response.GetPprof(), err)
	})
	http.HandleFunc("GET /types", func(w http.ResponseWriter, r *http.Request) {
		response, err := asked.ProfileTypes(r.Context(), &querypb.ProfileTypesRequest{})
		text := ""
		for _, t := range response.GetTypes() {
			text += fmt.Sprintf("%s:%s:%s:%s:%s", t.Name, t.SampleType, t.SampleUnit, t.PeriodType, t.PeriodUnit)
			if t.Delta {
				text += ":delta"
			}
			text += "\n"
		}
		answer(w, []byte(text), err)
	})
	// The values of a label.
	http.HandleFunc("GET /values", func(w http.ResponseWriter, r *http.Request) {
		response, err := asked.Values(r.Context(), &querypb.ValuesRequest{
			LabelName: r.FormValue("label"), Start: timestamppb.New(time.Unix(1, 0)), End: timestamppb.New(time.Now().AddDate(10, 0, 0)),
		})
		text := ""
		for _, v := range response.GetLabelValues() {
			text += v + "\n"
		}
		answer(w, []byte(text), err)
	})
	outside := check(net.Listen("tcp", "127.0.0.1:0"))
	fmt.Println(outside.Addr())
	go func() {
		io.Copy(io.Discard, os.Stdin) // until the test ends
		os.Exit(0)
	}()
	log.Fatal(http.Serve(outside, nil))
}

// body returns the content of a request, which is compressed.
func body(r *http.Request) ([]byte, error) {
	z, err := gzip.NewReader(r.Body)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}
