// Takes beats into the buffers of tb_sink_payload (tb/dpi/streams.cc), which also checks the protocol.
module stream_sink #(
    parameter int ID = 0,
    parameter int WIDTH = 32
) (
    input  logic             clk,
    input  logic             rst,
    input  logic             valid,
    input  logic [WIDTH-1:0] payload,
    output logic             ready
);
  localparam int BITS = (WIDTH + 31) / 32 * 32;

  import "DPI-C" function int tb_sink_step(input int id, input bit valid, input bit ready);
  import "DPI-C" function void tb_sink_payload(input int id, input bit [BITS-1:0] payload);

  initial ready = 0;

  always @(posedge clk) begin : step
    int action;
    if (rst) ready <= 0;
    else begin
      action = tb_sink_step(ID, valid, ready);
      ready <= action[0];
      if (action[1]) tb_sink_payload(ID, BITS'(payload));
    end
  end
endmodule
