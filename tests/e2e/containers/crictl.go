// Plays crictl for tests: asks the runtime over the CRI and prints what crictl prints of the answers.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"sort"
	"strings"
	"time"

	"github.com/golang/protobuf/jsonpb"
	"github.com/golang/protobuf/proto"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	pb "k8s.io/cri-api/pkg/apis/runtime/v1alpha2"
	"k8s.io/kubernetes/pkg/kubelet/cri/remote"
	"k8s.io/kubernetes/pkg/kubelet/kuberuntime/logs"
)

const socket = "/run/containerd/containerd.sock"

var client pb.RuntimeServiceClient

func fail(err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "time=%q level=fatal msg=%q\n", time.Now().Format(time.RFC3339), err.Error())
		os.Exit(1)
	}
}

func stamp(nanos int64) string { return time.Unix(0, nanos).Format(time.RFC3339Nano) }

func inspect(ids []string) {
	var all []map[string]interface{}
	for _, id := range ids {
		r, err := client.ContainerStatus(context.Background(), &pb.ContainerStatusRequest{ContainerId: id, Verbose: true})
		fail(err)
		text, err := (&jsonpb.Marshaler{EmitDefaults: true}).MarshalToString(proto.Message(r.Status))
		fail(err)
		status := map[string]interface{}{}
		fail(json.Unmarshal([]byte(text), &status))
		status["createdAt"], status["startedAt"], status["finishedAt"] = stamp(r.Status.CreatedAt), stamp(r.Status.StartedAt), stamp(r.Status.FinishedAt)
		item := map[string]interface{}{"status": status}
		for key, value := range r.Info {
			if strings.HasPrefix(value, "{") {
				var any map[string]interface{}
				fail(json.Unmarshal([]byte(value), &any))
				item[key] = any
			} else {
				item[key] = strings.Trim(value, `"`)
			}
		}
		all = append(all, item)
	}
	var out []byte
	var err error
	if len(all) == 1 {
		out, err = json.Marshal(all[0])
	} else {
		out, err = json.Marshal(all)
	}
	fail(err)
	var buffer bytes.Buffer
	fail(json.Indent(&buffer, out, "", "  "))
	fmt.Println(buffer.String())
}

func main() {
	flags := pflag.NewFlagSet(os.Args[1], pflag.ExitOnError)
	flags.SetInterspersed(false)
	follow := flags.BoolP("follow", "f", false, "")
	stamps := flags.BoolP("timestamps", "t", false, "")
	tail := flags.Int64("tail", -1, "")
	all := flags.BoolP("all", "a", false, "")
	flags.Bool("no-trunc", false, "")
	quiet := flags.BoolP("quiet", "q", false, "")
	flags.StringP("output", "o", "json", "")
	stdin := flags.BoolP("interactive", "i", false, "")
	latest := flags.BoolP("latest", "l", false, "")
	labels := flags.StringToString("label", nil, "")
	timeout := flags.Int64("timeout", 0, "")
	fail(flags.Parse(os.Args[2:]))
	args := flags.Args()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	conn, err := grpc.DialContext(ctx, socket, grpc.WithInsecure(), grpc.WithBlock(), grpc.FailOnNonTempDialError(true), grpc.WithContextDialer(func(c context.Context, a string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(c, "unix", a)
	}), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(16<<20)))
	cancel()
	fail(err)
	client = pb.NewRuntimeServiceClient(conn)
	switch os.Args[1] {
	case "ps":
		filter := &pb.ContainerFilter{LabelSelector: *labels}
		if !*all {
			filter.State = &pb.ContainerStateValue{State: pb.ContainerState_CONTAINER_RUNNING}
		}
		r, err := client.ListContainers(context.Background(), &pb.ListContainersRequest{Filter: filter})
		fail(err)
		sort.Slice(r.Containers, func(a, b int) bool { return r.Containers[a].CreatedAt > r.Containers[b].CreatedAt })
		if *latest && len(r.Containers) > 1 {
			r.Containers = r.Containers[:1]
		}
		if *quiet {
			for _, each := range r.Containers {
				fmt.Println(each.Id)
			}
			return
		}
		text, err := (&jsonpb.Marshaler{EmitDefaults: true, Indent: "  "}).MarshalToString(proto.Message(r))
		fail(err)
		fmt.Println(text)
	case "inspect":
		inspect(args)
	case "inspectp":
		r, err := client.PodSandboxStatus(context.Background(), &pb.PodSandboxStatusRequest{PodSandboxId: args[0], Verbose: true})
		fail(err)
		text, err := (&jsonpb.Marshaler{EmitDefaults: true}).MarshalToString(proto.Message(r.Status))
		fail(err)
		fmt.Printf("{\n  \"status\": %s\n}\n", text)
	case "stop":
		for _, id := range args {
			_, err := client.StopContainer(context.Background(), &pb.StopContainerRequest{ContainerId: id, Timeout: *timeout})
			fail(err)
			fmt.Println(id)
		}
	case "logs":
		service, err := remote.NewRemoteRuntimeService("unix://"+socket, 2*time.Second)
		fail(err)
		status, err := service.ContainerStatus(args[0])
		fail(err)
		limit := int64(-1)
		options := logs.NewLogOptions(&v1.PodLogOptions{Follow: *follow, TailLines: tail, LimitBytes: &limit, Timestamps: *stamps}, time.Now())
		fail(logs.ReadLogs(context.Background(), status.LogPath, status.Id, options, service, os.Stdout, os.Stderr))
	case "exec":
		r, err := client.Exec(context.Background(), &pb.ExecRequest{ContainerId: args[0], Cmd: args[1:], Stdin: *stdin, Stdout: true, Stderr: true})
		fail(err)
		where, err := url.Parse(r.Url)
		fail(err)
		executor, err := remotecommand.NewSPDYExecutor(&restclient.Config{TLSClientConfig: restclient.TLSClientConfig{Insecure: true}}, "POST", where)
		fail(err)
		options := remotecommand.StreamOptions{Stdout: os.Stdout, Stderr: os.Stderr}
		if *stdin {
			options.Stdin = os.Stdin
		}
		if err := executor.Stream(options); err != nil {
			fail(fmt.Errorf("execing command in container %s: %v", args[0], err))
		}
	}
}
