"""Who a process is and whose a cluster is: the cluster's certificates and its owner's stamp."""
