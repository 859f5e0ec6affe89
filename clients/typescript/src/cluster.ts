/** Ways to dtfctl's clusters: their addresses, and the certificates that `dtfctl up` has made. */

import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

import { GrpcTransport, type Tls } from "./grpc.js";

/**
 * Find the files with which a client of this user proves who it is to a task of a cluster.
 *
 * @param cluster its name
 * @param task "worker/0"
 * @throws Error there is no such cluster on this machine
 */
export function clusterTls(cluster: string, task: string): Tls {
  const state = process.env["XDG_STATE_HOME"] || join(homedir(), ".local", "state");
  const folder = join(process.env["DTFCTL_HOME"] || join(state, "dtfctl"), "clusters", cluster, "certificates");
  const both = join(folder, "tasks-ca.pem");
  const found = { ca: existsSync(both) ? both : join(folder, "ca.pem"), cert: join(folder, "cli.pem"), key: join(folder, "cli.key") };
  for (const file of Object.values(found)) {
    if (!existsSync(file)) throw new Error(`cluster ${cluster} is not up on this machine: there is no ${file}`);
  }
  return { ...found, serverName: `${task.replace("/", "-")}.task.${cluster}.dtfctl` };
}

/**
 * Connect to a task's master, over TLS with the cluster's certificates.
 *
 * @param cluster its name; what `dtfctl status` says of it tells where the task is
 * @param how task: "worker/0" by default. address: "HOST:PORT" where it is known. command: how to call dtfctl
 */
export async function connectCluster(
  cluster: string, how: { task?: string; address?: string; command?: readonly string[] } = {},
): Promise<GrpcTransport> {
  const { task = "worker/0", command = ["dtfctl"] } = how;
  return new GrpcTransport(how.address ?? (await addressOf(cluster, task, command)), clusterTls(cluster, task));
}

async function addressOf(cluster: string, task: string, command: readonly string[]): Promise<string> {
  const [program, ...words] = command;
  const { stdout } = await promisify(execFile)(program!, [...words, "status", "-c", cluster, "-o", "json"], { maxBuffer: 1 << 28 });
  const tasks = (JSON.parse(stdout) as { tasks: { name: string; address: string; state: string }[] }).tasks;
  const found = tasks.find((one) => one.name === task);
  if (!found?.address) throw new Error(`${task} of ${cluster} ${found === undefined ? "does not exist" : `is ${found.state} and has no address`}`);
  return found.address;
}

/** Connect a script that runs as a job of dtfctl (`dtfctl submit`) to the task beside it. */
export function connectJob(): GrpcTransport {
  const target = process.env["DTF_TARGET"];
  if (!target) throw new Error("DTF_TARGET is not set: this is not a job of dtfctl that uses its tasks");
  return new GrpcTransport(target);
}
