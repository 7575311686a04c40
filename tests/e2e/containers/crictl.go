// Plays crictl for tests: takes the command lines that crictl takes, asks the runtime over the CRI, and prints,
// also on standard error, what crictl prints. CRICTL_AGE is the minor version that it plays, 32 without it.
//
// What it plays is as the sources of kubernetes-sigs/cri-tools have it, under cmd/crictl and pkg/common:
// container.go, sandbox.go, exec.go, logs.go, util.go, main.go and config.go, of 1.19 to 1.35
// and newer, and as its issues 1041 and 1089 tell.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/ioutil"
	"net"
	"net/url"
	"os"
	"regexp"
	"sort"
	"strconv"
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

const (
	oneWay   = 23 // since then every command finds the runtime in the same way, and gives it two seconds
	stuck    = 25 // it does not leave the first of the usual places
	noDocker = 28 // since then dockershim is not looked for
	asList   = 31 // since then several containers are one list
	warns    = 32 // since then it says that its configuration is not there
	config   = "/etc/crictl.yaml"
	patience = 2 * time.Second
)

var (
	age       = 32
	endpoints = []string{"unix:///run/containerd/containerd.sock", "unix:///run/crio/crio.sock", "unix:///var/run/cri-dockerd.sock"}
	endpoint  = regexp.MustCompile(`(?m)^runtime-endpoint: *"?([^"\s]+)`)
	client    pb.RuntimeServiceClient
	cancel    context.CancelFunc
)

func say(level string, format string, words ...interface{}) {
	text := fmt.Sprintf(format, words...)
	fmt.Fprintf(os.Stderr, "time=%q level=%s msg=%q\n", time.Now().Format(time.RFC3339), level, text)
}

func fail(err error) {
	if err != nil {
		say("fatal", "%v", err)
		os.Exit(1)
	}
}

func failAs(doing string, err error) {
	if err != nil {
		if age >= oneWay {
			fmt.Fprintf(os.Stderr, "E%s %7d remote_runtime.go:1] %q err=%q\n", time.Now().Format("0102 15:04:05.000000"), os.Getpid(), "The runtime service failed", err)
		}
		fail(fmt.Errorf("%s: %v", doing, err))
	}
}

func limited(more time.Duration) context.Context {
	ctx := context.Background()
	if age >= oneWay {
		ctx, cancel = context.WithTimeout(ctx, patience+more)
	}
	return ctx
}

func dial(where string) (*grpc.ClientConn, error) {
	path := strings.TrimPrefix(where, "unix://")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := grpc.DialContext(ctx, path, grpc.WithInsecure(), grpc.WithBlock(), grpc.FailOnNonTempDialError(true), grpc.WithContextDialer(func(c context.Context, a string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(c, "unix", a)
	}), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(16<<20)))
	if err != nil && age < oneWay {
		err = fmt.Errorf("connect endpoint '%s': context deadline exceeded", where)
	} else if err != nil {
		err = fmt.Errorf("validate service connection: validate CRI v1 runtime API for endpoint %q: rpc error: code = Unavailable desc = %v", where, err)
	}
	return conn, err
}

// connect finds the runtime as the configuration says, or else tries what is usual. A command that also asks for
// images does it twice.
func connect(configured string, kinds ...string) string {
	found := configured
	for _, kind := range kinds {
		tried := []string{configured}
		if configured == "" {
			tried = endpoints
			if age < noDocker {
				tried = append([]string{"unix:///var/run/dockershim.sock"}, endpoints...)
			}
			say("warning", "%s connect using default endpoints: %v", kind, tried)
		}
		var conn *grpc.ClientConn
		var err error
		for _, each := range tried {
			if conn, err = dial(each); err == nil {
				found = each
				break
			}
			if configured == "" && age == stuck {
				fail(fmt.Errorf("listing containers: rpc error: code = Unavailable desc = connection error: desc = \"transport: Error while dialing dial unix %s: connect: no such file or directory\"", strings.TrimPrefix(each, "unix://")))
			}
			if len(tried) > 1 {
				say("error", "%v", err)
			}
		}
		fail(err)
		client = pb.NewRuntimeServiceClient(conn)
	}
	return found
}

// described prints what the runtime says of containers or pods.
func described(all []map[string]interface{}) {
	var whole interface{} = all
	if len(all) == 1 {
		whole = all[0]
	}
	out, err := json.Marshal(whole)
	fail(err)
	var buffer bytes.Buffer
	fail(json.Indent(&buffer, out, "", "  "))
	fmt.Println(buffer.String())
}

func description(status proto.Message, info map[string]string, moments map[string]time.Time) map[string]interface{} {
	text, err := (&jsonpb.Marshaler{EmitDefaults: true}).MarshalToString(status)
	fail(err)
	fields := map[string]interface{}{}
	fail(json.Unmarshal([]byte(text), &fields))
	for name, moment := range moments {
		fields[name] = moment.Format(time.RFC3339Nano)
	}
	item := map[string]interface{}{"status": fields}
	for key, value := range info {
		item[key] = json.RawMessage(value)
	}
	return item
}

func inspect(ids []string) {
	var all []map[string]interface{}
	for _, id := range ids {
		r, err := client.ContainerStatus(limited(0), &pb.ContainerStatusRequest{ContainerId: id, Verbose: true})
		if age < asList {
			failAs(fmt.Sprintf("getting the status of the container %q", id), err)
		} else {
			failAs("get the status of containers: get container status", err)
		}
		moments := map[string]time.Time{"createdAt": time.Unix(0, r.Status.CreatedAt), "startedAt": {}, "finishedAt": {}}
		if r.Status.State != pb.ContainerState_CONTAINER_CREATED {
			moments["startedAt"] = time.Unix(0, r.Status.StartedAt)
		}
		if r.Status.State == pb.ContainerState_CONTAINER_EXITED {
			moments["finishedAt"] = time.Unix(0, r.Status.FinishedAt)
		}
		all = append(all, description(r.Status, r.Info, moments))
		if age < asList {
			described(all)
			all = nil
		}
	}
	if age >= asList {
		described(all)
	}
}

func list(pairs []string, all, latest bool) {
	filter := &pb.ContainerFilter{LabelSelector: map[string]string{}}
	for _, pair := range pairs {
		words := strings.Split(pair, "=")
		if len(words) != 2 {
			fail(fmt.Errorf("incorrectly specified label: %v", pair))
		}
		filter.LabelSelector[words[0]] = words[1]
	}
	if !all && !latest {
		filter.State = &pb.ContainerStateValue{State: pb.ContainerState_CONTAINER_RUNNING}
	}
	r, err := client.ListContainers(limited(0), &pb.ListContainersRequest{Filter: filter})
	failAs("listing containers", err)
	sort.Slice(r.Containers, func(a, b int) bool { return r.Containers[a].CreatedAt > r.Containers[b].CreatedAt })
	if latest && len(r.Containers) > 1 {
		r.Containers = r.Containers[:1]
	}
	for _, each := range r.Containers {
		fmt.Println(each.Id)
	}
}

func execute(id string, command []string, stdin bool) {
	doing := "execing command in container " + id
	if age < asList {
		doing = "execing command in container"
	}
	if age < oneWay {
		doing = "execing command in container failed"
	}
	r, err := client.Exec(limited(0), &pb.ExecRequest{ContainerId: id, Cmd: command, Stdin: stdin, Stdout: true, Stderr: true})
	failAs(doing, err)
	where, err := url.Parse(r.Url)
	fail(err)
	executor, err := remotecommand.NewSPDYExecutor(&restclient.Config{TLSClientConfig: restclient.TLSClientConfig{Insecure: true}}, "POST", where)
	fail(err)
	options := remotecommand.StreamOptions{Stdout: os.Stdout, Stderr: os.Stderr}
	if stdin {
		options.Stdin = os.Stdin
	}
	if err := executor.Stream(options); err != nil { // whatever the command's exit status is, crictl's is 1
		fail(fmt.Errorf("%s: %v", doing, err))
	}
}

func read(where, id string, options *v1.PodLogOptions) {
	if where == "" { // until then of all commands this one tries nothing by itself
		failAs("connect", errors.New("context deadline exceeded"))
	}
	service, err := remote.NewRemoteRuntimeService(where, patience)
	fail(err)
	status, err := service.ContainerStatus(id)
	fail(err)
	limit := int64(-1)
	options.LimitBytes = &limit
	fail(logs.ReadLogs(context.Background(), status.LogPath, status.Id, logs.NewLogOptions(options, time.Now()), service, os.Stdout, os.Stderr))
}

func main() {
	if played, err := strconv.Atoi(os.Getenv("CRICTL_AGE")); err == nil {
		age = played
	}
	command := os.Args[1]
	flags := pflag.NewFlagSet(command, pflag.ContinueOnError)
	flags.SetInterspersed(false)
	flags.SetOutput(ioutil.Discard)
	var follow, stamps, all, whole, quiet, stdin, latest bool
	var tail, timeout int64
	var labels []string
	output := "json"
	switch command {
	case "ps":
		flags.BoolVarP(&all, "all", "a", false, "")
		flags.BoolVar(&whole, "no-trunc", false, "")
		flags.BoolVarP(&quiet, "quiet", "q", false, "")
		flags.BoolVarP(&latest, "latest", "l", false, "")
		flags.StringSliceVar(&labels, "label", nil, "")
	case "inspect", "inspectp":
		flags.StringVarP(&output, "output", "o", "json", "")
	case "stop":
		flags.Int64VarP(&timeout, "timeout", "t", 0, "")
	case "logs":
		flags.BoolVarP(&follow, "follow", "f", false, "")
		flags.BoolVarP(&stamps, "timestamps", "t", false, "")
		flags.Int64Var(&tail, "tail", -1, "")
	case "exec":
		flags.BoolVarP(&stdin, "interactive", "i", false, "")
	default:
		fail(fmt.Errorf("%s is not played", command))
	}
	fail(flags.Parse(os.Args[2:]))
	args := flags.Args()
	if command == "ps" && !quiet || output != "json" {
		fail(errors.New("a table is not played"))
	}
	configured := ""
	if text, err := ioutil.ReadFile(config); err != nil {
		if age >= warns {
			say("warning", "Config %q does not exist, trying next: %q", config, "/usr/local/bin/crictl.yaml")
		}
	} else if found := endpoint.FindSubmatch(text); found != nil {
		configured = string(found[1])
	}
	asked := []string{"runtime"}
	if command == "ps" || age >= asList && (command == "inspect" || command == "exec") {
		asked = append(asked, "image")
	}
	if command != "logs" || age >= oneWay {
		configured = connect(configured, asked...)
	}
	switch command {
	case "ps":
		if len(args) > 0 {
			fail(errors.New("an argument is not played"))
		}
		list(labels, all, latest)
	case "inspect":
		inspect(args)
	case "inspectp":
		r, err := client.PodSandboxStatus(limited(0), &pb.PodSandboxStatusRequest{PodSandboxId: args[0], Verbose: true})
		failAs("getting the pod sandbox status", err)
		moments := map[string]time.Time{"createdAt": time.Unix(0, r.Status.CreatedAt)}
		described([]map[string]interface{}{description(r.Status, r.Info, moments)})
	case "stop":
		for _, id := range args {
			_, err := client.StopContainer(limited(time.Duration(timeout)*time.Second), &pb.StopContainerRequest{ContainerId: id, Timeout: timeout})
			failAs(fmt.Sprintf("stopping the container %q", id), err)
			fmt.Println(id)
		}
	case "logs":
		read(configured, args[0], &v1.PodLogOptions{Follow: follow, TailLines: &tail, Timestamps: stamps})
	case "exec":
		execute(args[0], args[1:], stdin)
	}
}
